//! Verification of servers before a token is sent.

use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::cluster::{TENANTS, shared};
use crate::content::{condition, namespace};
use crate::fixture::Tenant;
use crate::user::FILE;

#[test]
fn token_is_not_sent_over_plain_http() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "trust-plain");
    let file = tenant.deploy_broker("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    file.with("brokerURL", json!(url))
        .write(&tenant.admin.path("plain.subm"));
    let joining = cluster.workload("trust-plain");
    let join = format!(
        "join plain.subm --clusterid east --kubeconfig '{}'",
        joining.kubeconfig()
    );
    for line in [join.as_str(), "deploy broker --broker-info-from plain.subm"] {
        tenant.admin.fails(line, &["https"]);
        // No connection was made.
        let knocked = listener.accept().map(|(_, who)| who);
        assert_eq!(knocked.unwrap_err().kind(), ErrorKind::WouldBlock, "{line}");
    }
}

#[test]
fn server_with_another_certificate_is_refused() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "trust-other");
    let file = tenant.deploy_broker("");
    let joining = cluster.workload("trust-other");
    // Another server, with a certificate of its own.
    let strange = file.with("brokerURL", json!(joining.url()));
    strange.write(&tenant.admin.path("strange.subm"));
    let join = format!(
        "join strange.subm --clusterid east --kubeconfig '{}'",
        joining.kubeconfig()
    );
    for line in [
        join.as_str(),
        "deploy broker --broker-info-from strange.subm",
    ] {
        let said = tenant.admin.fails(line, &["ertificate", "hint: "]);
        assert!(!said.contains("401"), "the token was shown: {said}");
    }
    // Without a CA in the file, only the machine's roots are trusted.
    let mut bare = file.clone();
    let data = bare.0["ClientToken"]["data"].as_object_mut().unwrap();
    data.remove("ca.crt");
    bare.write(&tenant.admin.path("bare.subm"));
    let join = format!(
        "join bare.subm --clusterid east --kubeconfig '{}'",
        joining.kubeconfig()
    );
    tenant.admin.fails(&join, &["ertificate"]);
    tenant
        .admin
        .does(&format!("{join} --check-broker-certificate=false"));
}

#[test]
fn system_groups_cannot_be_tenant_administrators() {
    let Some(cluster) = shared() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    let users = |kind: &str, name: &str| json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}]);
    let account = json!([{"kind": "ServiceAccount", "name": "submariner-k8s-broker-admin",
                          "namespace": "submariner-broker-trust-victim"}]);
    for (id, admins) in [
        ("trust-masters", users("Group", "system:masters")),
        ("trust-all", users("Group", "system:authenticated")),
        ("trust-strangers", users("Group", "system:unauthenticated")),
        ("trust-neighbour", account),
    ] {
        let mut wanted = crate::fixture::tenant(id);
        wanted["spec"] = json!({"admins": admins});
        let answer = root.send(&http::Method::POST, TENANTS, Some(&wanted));
        if answer.status == 422 {
            continue;
        }
        let failed = crate::fixture::await_phase(&root, id, "Failed");
        let ready = condition(&failed, "Ready").unwrap();
        assert_eq!(ready["reason"], "InvalidAdmins", "{id}");
        assert_eq!(
            root.find(&namespace(&format!("submariner-broker-{id}"))),
            None
        );
        admin.does(&format!("delete tenant {id}"));
    }
}

#[test]
fn unreachable_broker_is_reported_with_its_address() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "trust-gone");
    let file = tenant.deploy_broker("");
    // A port that was free a moment ago.
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    file.with("brokerURL", json!(format!("https://{gone}")))
        .write(&tenant.admin.path(FILE));
    let joining = cluster.workload("trust-gone");
    let join = format!(
        "join {FILE} --clusterid east --kubeconfig '{}'",
        joining.kubeconfig()
    );
    for line in [join, format!("deploy broker --broker-info-from {FILE}")] {
        tenant.admin.fails(&line, &[&gone.to_string(), "hint: "]);
    }
    let before: Option<Value> = joining.find("/api/v1/namespaces/submariner-operator");
    assert_eq!(before, None);
}
