//! A space for a tenant, on Insula only.

use http::Method;
use serde_json::json;

use crate::cluster::{Cluster, Operator, TENANTS, is_kubernetes, lacks, shared};
use crate::content::{KINDS, at, condition, namespace, one};
use crate::fixture::{Tenant, await_phase, await_refused, tenant};

#[test]
fn space_isolation_is_refused_without_spaces_or_permission() {
    let Some(cluster) = Cluster::bare(Operator::Inside) else {
        return;
    };
    let (admin, root) = (cluster.admin(), cluster.root());
    // Without --spaces.
    admin.does("deploy axon-cp --without-deployment --no-wait");
    let reason = if is_kubernetes() {
        cluster.start_operator();
        "SpacesNotServed"
    } else {
        "Forbidden"
    };
    let mut wanted = tenant("no-space");
    wanted["spec"] = json!({"isolation": "Space"});
    root.create(TENANTS, &wanted);
    let failed = await_phase(&root, "no-space", "Failed");
    assert_eq!(condition(&failed, "Ready").unwrap()["reason"], reason);
    // The command does not create such a tenant.
    let refusal = match is_kubernetes() {
        true => "this server has no spaces",
        false => "the operator may not create spaces",
    };
    admin.fails("create tenant refused --isolation space", &[refusal]);
    assert_eq!(root.find(&format!("{TENANTS}/refused")), None);
    // Nothing was created for the other one, so that it can be deleted.
    admin.does("delete tenant no-space");
}

#[test]
fn tenant_with_a_space_is_provisioned_deployed_and_deleted() {
    if lacks("spaces") {
        return;
    }
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let tenant = Tenant::create_with(&cluster, "space", "--isolation space");
    let object = tenant.object(&root);
    assert_eq!(object["spec"]["isolation"], "Space");
    assert_eq!(object["status"]["space"], tenant.namespace);
    // Its namespace is in its own space, and not in the system space.
    assert_eq!(root.find(&namespace(&tenant.namespace)), None);
    let inside = format!(
        "/tenants/{0}{1}",
        tenant.namespace,
        namespace(&tenant.namespace)
    );
    assert!(root.find(&inside).is_some());
    let file = tenant.deploy_broker("--globalnet");
    assert_eq!(file.namespace(), Some(tenant.namespace.as_str()));
    assert_eq!(file.url(), cluster.url());
    // It is in Axon mode, although its own space does not serve tenants.
    let api = tenant.api(&cluster);
    let accounts = api.names(&at(&tenant.namespace, "serviceaccounts"));
    assert_eq!(accounts, ["default", "submariner-k8s-broker-admin"]);
    for member in ["east", "west"] {
        tenant.join(&cluster.workload(member), member, "");
    }
    let bindings = api.names(&at(&tenant.namespace, "rolebindings"));
    assert!(
        bindings.contains(&"cluster-west-submariner-k8s-broker-cluster".to_owned()),
        "{bindings:?}"
    );
    cluster.admin().does("delete tenant space");
    assert_eq!(
        root.find(&format!("/api/v1/tenants/{}", tenant.namespace)),
        None
    );
    await_refused(&api, &at(&tenant.namespace, "brokers"));
}

#[test]
fn r4_r42_tenant_token_is_refused_in_another_space() {
    if lacks("spaces") {
        return;
    }
    let Some(cluster) = shared() else { return };
    let [own, other] = ["space-a", "space-b"].map(|id| {
        let tenant = Tenant::create_with(&cluster, id, "--isolation space");
        tenant.deploy_broker("--globalnet");
        tenant
    });
    let (api, foreign) = (own.api(&cluster), other.namespace.as_str());
    let mut asked = 0;
    for prefix in [
        String::new(),
        format!("/tenants/{foreign}"),
        "/tenants/system".to_owned(),
        "/tenants/nobodys".to_owned(),
    ] {
        for (_, resource) in KINDS {
            for (method, path) in [
                (Method::GET, at(foreign, resource)),
                (Method::GET, one(foreign, resource, "submariner-broker")),
                (Method::POST, at(foreign, resource)),
                (Method::PUT, one(foreign, resource, "x")),
                (Method::PATCH, one(foreign, resource, "x")),
                (Method::DELETE, one(foreign, resource, "submariner-broker")),
                (Method::DELETE, at(foreign, resource)),
                (
                    Method::GET,
                    format!("{}?watch=true&timeoutSeconds=1", at(foreign, resource)),
                ),
            ] {
                let body = json!({"metadata": {"name": "x"}});
                let body = (![Method::GET, Method::DELETE].contains(&method)).then_some(&body);
                let answer = api.send(&method, &format!("{prefix}{path}"), body);
                let refused = matches!(answer.status, 403 | 404);
                assert!(refused, "{method} {prefix}{path}: {}", answer.text());
                asked += 1;
            }
        }
    }
    assert!(asked > 300, "{asked}");
    let broker = format!(
        "/tenants/{foreign}{}",
        one(foreign, "brokers", "submariner-broker")
    );
    assert!(cluster.root().find(&broker).is_some());
}
