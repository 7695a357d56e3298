//! The Cluster or Machine that owns an object.

use kube::Resource;

use crate::names::{CLUSTER_LABEL, GROUP};

/// Returns the name of the Cluster that owns an object.
pub fn cluster(object: &impl Resource) -> Option<&str> {
    of_kind(object, GROUP, "Cluster")
}

/// Returns the name of the Machine that owns an object.
pub fn machine(object: &impl Resource) -> Option<&str> {
    of_kind(object, GROUP, "Machine")
}

/// Returns the name of the owner of a kind, whatever its version.
pub fn of_kind<'a>(object: &'a impl Resource, group: &str, kind: &str) -> Option<&'a str> {
    let owners = object.meta().owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| {
        let owner_group = owner.api_version.split('/').next().unwrap_or_default();
        owner.kind == kind && owner_group == group
    });
    owner.map(|owner| owner.name.as_str())
}

/// Returns the name of the Cluster that an infrastructure cluster belongs to: that of its owner,
/// that of its label, or its own.
pub fn cluster_name(infrastructure: &impl Resource) -> String {
    let metadata = infrastructure.meta();
    let labels = metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(CLUSTER_LABEL));
    let name = cluster(infrastructure).or(label.map(String::as_str));
    let name = name.or(metadata.name.as_deref());
    name.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::{Value, json};

    use super::*;

    fn object(metadata: Value) -> Secret {
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn owner(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "1"})
    }

    #[test]
    fn owner_is_found_by_group_and_kind() {
        let owners = [
            owner("other.example/v1", "Cluster", "wrong"),
            owner("cluster.x-k8s.io/v1beta1", "Machine", "m"),
            owner("cluster.x-k8s.io/v1beta2", "Cluster", "c"),
        ];
        let owned = object(json!({"name": "x", "ownerReferences": owners}));
        assert_eq!((cluster(&owned), machine(&owned)), (Some("c"), Some("m")));
        let alone = object(json!({"name": "x"}));
        assert_eq!((cluster(&alone), machine(&alone)), (None, None));
    }

    #[test]
    fn cluster_is_named_by_owner_then_label_then_name() {
        let owners = [owner("cluster.x-k8s.io/v1beta2", "Cluster", "owner")];
        let labels = json!({ CLUSTER_LABEL: "label" });
        for (metadata, expected) in [
            (
                json!({"name": "x", "labels": labels, "ownerReferences": owners}),
                "owner",
            ),
            (json!({"name": "x", "labels": labels}), "label"),
            (json!({"name": "x"}), "x"),
        ] {
            assert_eq!(cluster_name(&object(metadata)), expected);
        }
    }
}
