use serde_json::{Value, json};

use super::*;

fn data() -> Metal3Data {
    serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Data",
        "metadata": {"name": "t-0", "namespace": "team", "uid": "1"}, "spec": {},
    }))
    .unwrap()
}

#[test]
fn secret_in_the_cluster_is_owned_by_the_data() {
    let content = BTreeMap::from([("metaData".to_owned(), ByteString(b"a: b\n".to_vec()))]);
    let secret = owned_secret(&data(), "m-metadata".to_owned(), "c", content);
    assert_eq!(
        json!(secret),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "m-metadata", "namespace": "team",
                "labels": {"cluster.x-k8s.io/cluster-name": "c"},
                "ownerReferences": [{
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Data",
                    "name": "t-0", "uid": "1", "controller": true,
                }],
            },
            "type": "infrastructure.cluster.x-k8s.io/secret",
            "data": {"metaData": "YTogYgo="},
        })
    );
}

#[test]
fn secret_of_former_data_is_not_used() {
    let owner = |uid: &str, controller: Value| {
        json!([{
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Data",
            "name": "t-0", "uid": uid, "controller": controller,
        }])
    };
    for (owners, expected) in [
        (owner("1", json!(true)), true),
        (owner("0", json!(true)), false),
        (owner("0", Value::Null), true),
        (json!([]), true),
    ] {
        let metadata = json!({"name": "m-metadata", "ownerReferences": owners});
        let secret: Secret = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        assert_eq!(is_usable(&secret, &data()), expected, "{owners}");
    }
}
