//! The contents of a namespace.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::Api;

/// The kinds in a broker's namespace.
pub const KINDS: [(&str, &str); 11] = [
    ("api/v1", "serviceaccounts"),
    ("api/v1", "secrets"),
    ("api/v1", "configmaps"),
    ("apis/rbac.authorization.k8s.io/v1", "roles"),
    ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    ("apis/submariner.io/v1alpha1", "brokers"),
    ("apis/submariner.io/v1", "clusters"),
    ("apis/submariner.io/v1", "endpoints"),
    ("apis/multicluster.x-k8s.io/v1alpha1", "serviceimports"),
    ("apis/multicluster.x-k8s.io/v1alpha1", "serviceexports"),
    ("apis/discovery.k8s.io/v1", "endpointslices"),
];

/// The server's own objects in every namespace.
const EVERYWHERE: [&str; 2] = ["serviceaccounts/default", "configmaps/kube-root-ca.crt"];

/// Returns the path of a kind in a namespace.
pub fn at(namespace: &str, resource: &str) -> String {
    let (group, _) = KINDS.iter().find(|(_, kind)| *kind == resource).unwrap();
    format!("/{group}/namespaces/{namespace}/{resource}")
}

/// Returns the path of one object.
pub fn one(namespace: &str, resource: &str, name: &str) -> String {
    format!("{}/{name}", at(namespace, resource))
}

/// Returns the path of a namespace.
pub fn namespace(name: &str) -> String {
    format!("/api/v1/namespaces/{name}")
}

/// Returns the objects in a namespace with UID and version. Kinds that are not served count as
/// empty.
pub fn snapshot(api: &Api, namespace: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (_, resource) in KINDS {
        let list = api.find(&at(namespace, resource));
        let items = list.iter().flat_map(|list| list["items"].as_array());
        for item in items.flatten() {
            let meta = |field: &str| item["metadata"][field].as_str().unwrap().to_owned();
            let name = format!("{resource}/{}", meta("name"));
            let version = format!("{} {}", meta("uid"), meta("resourceVersion"));
            found.insert(name, version);
        }
    }
    found.retain(|name, _| !EVERYWHERE.contains(&name.as_str()));
    found
}

/// Returns the names of the objects in a namespace.
pub fn names(api: &Api, namespace: &str) -> Vec<String> {
    snapshot(api, namespace).into_keys().collect()
}

/// Returns a condition of an object.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}
