//! Access with one tenant's token elsewhere: R4, R42 and R82, generated.

use http::Method;
use serde_json::{Value, json};

use crate::api::Api;
use crate::cluster::{TENANTS, is_kubernetes, shared};
use crate::content::{KINDS, at, one, snapshot};
use crate::fixture::Tenant;

const ADMIN: &str = "submariner-k8s-broker-admin";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Kinds of a namespace besides those of brokers.
const OTHERS: [(&str, &str); 9] = [
    ("api/v1", "pods"),
    ("api/v1", "services"),
    ("api/v1", "events"),
    ("api/v1", "endpoints"),
    ("apis/apps/v1", "deployments"),
    ("apis/batch/v1", "jobs"),
    ("apis/networking.k8s.io/v1", "networkpolicies"),
    ("apis/coordination.k8s.io/v1", "leases"),
    ("apis/submariner.io/v1alpha1", "tenants"),
];

/// Cluster-scoped kinds.
const CLUSTER_SCOPED: [(&str, &str); 9] = [
    ("api/v1", "namespaces"),
    ("api/v1", "nodes"),
    ("api/v1", "persistentvolumes"),
    ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    ("apis/rbac.authorization.k8s.io/v1", "clusterroles"),
    ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    (
        "apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
    ),
    ("apis/storage.k8s.io/v1", "storageclasses"),
    ("apis/certificates.k8s.io/v1", "certificatesigningrequests"),
];

/// Returns all requests for a collection and one object in it.
fn requests(collection: &str, name: &str) -> Vec<(Method, String, Option<Value>)> {
    let object = json!({"metadata": {"name": name}});
    let single = format!("{collection}/{name}");
    vec![
        (Method::GET, collection.to_owned(), None),
        (
            Method::GET,
            format!("{collection}?watch=true&timeoutSeconds=1"),
            None,
        ),
        (Method::POST, collection.to_owned(), Some(object.clone())),
        (Method::DELETE, collection.to_owned(), None),
        (Method::GET, single.clone(), None),
        (Method::PUT, single.clone(), Some(object.clone())),
        (Method::PATCH, single.clone(), Some(object)),
        (Method::DELETE, single, None),
    ]
}

/// Checks that every request is refused, whether or not the object exists.
#[track_caller]
fn refuses_all(api: &Api, collection: &str, name: &str) -> usize {
    let requests = requests(collection, name);
    for (method, path, body) in &requests {
        let answer = api.send(method, path, body.as_ref());
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
    }
    requests.len()
}

#[test]
fn r4_r42_tenant_token_is_refused_outside_its_namespace() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    cluster.admin().does("deploy broker");
    let [one, other] = ["r4-a", "r4-b"].map(|id| {
        let tenant = Tenant::create(&cluster, id);
        tenant.deploy_broker("--globalnet");
        tenant
    });
    let elsewhere = [
        other.namespace.as_str(),
        "submariner-k8s-broker",
        "axon-operator",
        "kube-system",
        "default",
    ];
    let before = elsewhere.map(|name| snapshot(&root, name));
    let api = one.api(&cluster);
    let mut asked = 0;
    for name in elsewhere {
        for (group, resource) in KINDS.iter().chain(&OTHERS) {
            let there = root.find(&format!("/{group}/namespaces/{name}/{resource}"));
            // An existing object, if there is one.
            let first = there.and_then(|list| {
                list["items"][0]["metadata"]["name"]
                    .as_str()
                    .map(str::to_owned)
            });
            let first = first.unwrap_or_else(|| "x".to_owned());
            asked += refuses_all(
                &api,
                &format!("/{group}/namespaces/{name}/{resource}"),
                &first,
            );
        }
    }
    // Over all namespaces, its own included.
    for (group, resource) in KINDS.iter().chain(&OTHERS) {
        for query in ["", "?watch=true&timeoutSeconds=1"] {
            let path = format!("/{group}/{resource}{query}");
            assert_eq!(api.code(&Method::GET, &path, None), 403, "{path}");
            asked += 1;
        }
    }
    for (group, resource) in CLUSTER_SCOPED {
        asked += refuses_all(&api, &format!("/{group}/{resource}"), "x");
    }
    assert!(asked > 900, "{asked}");
    assert_eq!(elsewhere.map(|name| snapshot(&root, name)), before);
    // The same in the other direction.
    let back = other.api(&cluster);
    refuses_all(
        &back,
        &at(&one.namespace, "secrets"),
        "submariner-k8s-broker-admin-token",
    );
    // Each has access to its own namespace.
    assert_eq!(
        api.code(&Method::GET, &at(&one.namespace, "secrets"), None),
        200
    );
}

#[test]
fn r82_tenant_cannot_escalate_its_permissions() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r82");
    let (here, api) = (tenant.namespace.as_str(), tenant.api(&cluster));
    let role = one(here, "roles", ADMIN);
    let mut wider = api.get(&role);
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    wider["rules"].as_array_mut().unwrap().push(rule.clone());
    let new_role = |rules: Value| {
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role",
                                         "metadata": {"name": "mine"}, "rules": rules})
    };
    let binding = |kind: &str, name: &str| {
        json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ADMIN, "namespace": here}]})
    };
    let star = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["patch"]}]);
    let roles = at(here, "roles");
    let bindings = at(here, "rolebindings");
    for (method, path, body) in [
        (Method::PUT, role.clone(), wider),
        (Method::PATCH, role.clone(), json!({"rules": star})),
        (Method::POST, roles.clone(), new_role(star.clone())),
        (Method::POST, roles.clone(), new_role(json!([rule]))),
        (Method::POST, roles.clone(), new_role(secrets)),
        (
            Method::POST,
            bindings.clone(),
            binding("ClusterRole", "cluster-admin"),
        ),
        (
            Method::POST,
            bindings.clone(),
            binding("ClusterRole", "admin"),
        ),
        (
            Method::POST,
            bindings.clone(),
            binding("ClusterRole", "axon-operator"),
        ),
        (
            Method::POST,
            format!("/api/v1/namespaces/{here}/pods"),
            json!({"metadata": {"name": "mine"}}),
        ),
        (
            Method::POST,
            "/api/v1/namespaces".to_owned(),
            json!({"metadata": {"name": "mine"}}),
        ),
        (
            Method::POST,
            format!("/api/v1/namespaces/{here}/serviceaccounts/{ADMIN}/token"),
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
        ),
        (
            Method::PATCH,
            format!("/api/v1/namespaces/{here}"),
            json!({"metadata": {"labels": {"a": "b"}}}),
        ),
        (
            Method::DELETE,
            format!("/api/v1/namespaces/{here}"),
            json!({}),
        ),
        (
            Method::POST,
            TENANTS.to_owned(),
            json!({"metadata": {"name": "mine"}}),
        ),
    ] {
        let answer = api.send(&method, &path, Some(&body));
        assert_eq!(
            answer.status,
            403,
            "{method} {path} {body}: {}",
            answer.text()
        );
    }
    for (group, resource) in OTHERS {
        if resource != "endpoints" {
            refuses_all(&api, &format!("/{group}/namespaces/{here}/{resource}"), "x");
        }
    }
    // Its own permissions may be granted.
    let own_role = new_role(
        json!([{"apiGroups": ["submariner.io"], "resources": ["clusters"], "verbs": ["get"]}]),
    );
    api.create(&roles, &own_role);
    api.create(&bindings, &binding("Role", "mine"));
    if !is_kubernetes() {
        // On Insula, the token determines the space.
        for path in [
            "/api/v1/tenants",
            "/api/v1/tenants/all/secrets",
            "/api/v1/tenants/acme/namespaces/default/secrets",
        ] {
            assert_eq!(api.code(&Method::GET, path, None), 403, "{path}");
        }
    }
}
