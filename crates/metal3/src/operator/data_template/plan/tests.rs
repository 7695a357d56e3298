use serde_json::{Value, json};

use super::*;

const HELD: &str = "metal3dataclaim.infrastructure.cluster.x-k8s.io";

/// Returns a claim of template `t`, with these fields merged in.
fn claim(name: &str, more: Value) -> Metal3DataClaim {
    let mut claim = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3DataClaim",
        "metadata": {
            "name": name, "namespace": "team", "uid": format!("{name}-uid"),
            "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": [{
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine",
                "name": "m", "uid": "m-uid", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"template": {"name": "t"}},
    });
    merge(&mut claim, more);
    serde_json::from_value(claim).unwrap()
}

/// Returns data of template `t`.
fn data(index: i32, claim: &str, more: Value) -> Metal3Data {
    let mut data = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Data",
        "metadata": {
            "name": format!("t-{index}"), "namespace": "team", "finalizers": [HELD],
            "ownerReferences": [{
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3DataClaim",
                "name": claim, "uid": format!("{claim}-uid"), "controller": true,
            }],
        },
        "spec": {"index": index, "template": {"name": "t"}, "claim": {"name": claim}},
    });
    merge(&mut data, more);
    serde_json::from_value(data).unwrap()
}

fn merge(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (key, value) in more {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, more) => *object = more,
    }
}

fn deleted() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}})
}

/// Returns a plan as text: one word for each claim and data.
fn text(claims: &[Metal3DataClaim], data: &[Metal3Data]) -> String {
    let plan = Plan::of("t", claims, data);
    let mut words = Vec::new();
    for (claim, data) in plan.released {
        let data: Vec<_> = data.into_iter().map(ResourceExt::name_any).collect();
        words.push(format!("release {} {}", claim.name_any(), data.join(",")));
    }
    for data in plan.orphaned {
        words.push(format!("orphan {}", data.name_any()));
    }
    for (claim, data) in plan.recorded {
        words.push(format!("record {} {data}", claim.name_any()));
    }
    for claim in plan.without_data {
        words.push(format!("create {}", claim.name_any()));
    }
    words.push(format!("{:?}", plan.used));
    words.join("; ")
}

#[test]
fn claims_get_data_once() {
    let recorded = json!({
        "metadata": {"finalizers": [HELD]}, "status": {"renderedData": {"name": "t-0"}},
    });
    let old = |name: &str, second: u32| {
        claim(
            name,
            json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:00:0{second}Z")}}),
        )
    };
    for (claims, data, expected) in [
        (vec![claim("a", json!({}))], vec![], "create a; {}"),
        // The oldest comes first.
        (
            vec![old("a", 3), old("b", 1), old("c", 1)],
            vec![],
            "create b; create c; create a; {}",
        ),
        // The operator was stopped before the status of the claim was written.
        (
            vec![claim("a", json!({}))],
            vec![data(3, "a", json!({}))],
            "record a t-3; {3: \"a\"}",
        ),
        (
            vec![claim("a", recorded.clone())],
            vec![data(0, "a", json!({}))],
            "{0: \"a\"}",
        ),
        // The finalizer was removed.
        (
            vec![claim(
                "a",
                json!({"status": {"renderedData": {"name": "t-0"}}}),
            )],
            vec![data(0, "a", json!({}))],
            "record a t-0; {0: \"a\"}",
        ),
        // The recorded data no longer exists.
        (vec![claim("a", recorded.clone())], vec![], "create a; {}"),
        // Data of a former claim of the same name ends first.
        (
            vec![claim("a", json!({"metadata": {"uid": "new"}}))],
            vec![data(0, "a", deleted())],
            "orphan t-0; {0: \"a\"}",
        ),
        (
            vec![claim("a", json!({}))],
            vec![data(0, "a", deleted())],
            "{0: \"a\"}",
        ),
        // Claims of other templates and namespaces are left alone.
        (
            vec![
                claim("a", json!({"spec": {"template": {"name": "u"}}})),
                claim("b", json!({"spec": {"template": {"namespace": "other"}}})),
            ],
            vec![data(0, "a", json!({"spec": {"template": {"name": "u"}}}))],
            "{0: \"a\"}",
        ),
    ] {
        assert_eq!(text(&claims, &data), expected);
    }
}

#[test]
fn deleted_claims_are_released_with_all_their_data() {
    let mut held = deleted();
    held["metadata"]["finalizers"] = json!([HELD, "other"]);
    let mut free = deleted();
    free["metadata"]["finalizers"] = json!(["other"]);
    let unheld = json!({"metadata": {"finalizers": ["other"]}});
    for (claims, data, expected) in [
        (
            vec![claim("a", held.clone())],
            vec![data(1, "a", json!({})), data(2, "a", unheld.clone())],
            "release a t-1,t-2; {1: \"a\", 2: \"a\"}",
        ),
        (vec![claim("a", held.clone())], vec![], "release a ; {}"),
        // The index is in use as long as the data exists.
        (
            vec![claim("a", free.clone()), claim("b", json!({}))],
            vec![data(0, "a", unheld)],
            "create b; {0: \"a\"}",
        ),
        (
            vec![claim("a", free)],
            vec![data(0, "a", json!({}))],
            "release a t-0; {0: \"a\"}",
        ),
        // The claim was removed by force.
        (
            vec![],
            vec![data(0, "a", deleted())],
            "orphan t-0; {0: \"a\"}",
        ),
        (vec![], vec![data(0, "a", json!({}))], "{0: \"a\"}"),
    ] {
        assert_eq!(text(&claims, &data), expected);
    }
}

#[test]
fn name_of_any_data_takes_its_index() {
    let other = |name: &str| {
        data(
            7,
            "x",
            json!({"metadata": {"name": name}, "spec": {"template": {"name": "u"}}}),
        )
    };
    let all = [
        other("t-0"),
        other("t-2"),
        other("t-02"),
        other("t-x"),
        other("t-1-0"),
        other("u-7"),
    ];
    let taken: Vec<_> = used("t", &all).into_keys().collect();
    assert_eq!(taken, [0, 2]);
}

#[test]
fn data_is_owned_by_claim_and_machine() {
    let made = new_data("t", &claim("a", json!({})), 4).unwrap();
    assert_eq!(
        serde_json::to_value(made).unwrap(),
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Data",
            "metadata": {
                "name": "t-4", "namespace": "team", "finalizers": [HELD],
                "labels": {"cluster.x-k8s.io/cluster-name": "c"},
                "ownerReferences": [
                    {
                        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                        "kind": "Metal3DataClaim", "name": "a", "uid": "a-uid",
                        "controller": true,
                    },
                    {
                        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                        "kind": "Metal3Machine", "name": "m", "uid": "m-uid",
                    },
                ],
            },
            "spec": {
                "index": 4,
                "template": {"name": "t", "namespace": "team"},
                "claim": {"name": "a", "namespace": "team"},
            },
        })
    );
    let alone = claim("a", json!({"metadata": {"ownerReferences": []}}));
    assert_eq!(new_data("t", &alone, 0), None);
}
