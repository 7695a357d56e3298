//! Rules that convert a status between the contracts `v1beta1` and `v1beta2`, for the versions of
//! a provider's kinds.
//!
//! | rule | `v1beta1` | `v1beta2` |
//! |---|---|---|
//! | [`CONDITIONS`] | `conditions`, `failureReason`, `failureMessage` | the same in `deprecated.v1beta1` |
//! | | `v1beta2.conditions` | `conditions` |
//! | [`PROVISIONED`] | `ready` | `ready`, `initialization.provisioned` |
//! | [`FAILURE_DOMAINS`] | `failureDomains`, a map | `failureDomains`, a list |

use insula_operator::webhook::versions::{Fields, Rule};
use serde_json::{Value, json};

/// The fields of a status in `v1beta1` that `v1beta2` has in `deprecated.v1beta1`.
const DEPRECATED: [&str; 3] = ["conditions", "failureReason", "failureMessage"];

/// Conditions and terminal failures, of every status.
pub const CONDITIONS: Rule = Rule::Custom {
    upgrade: upgrade_conditions,
    downgrade: downgrade_conditions,
};

/// Whether infrastructure is provisioned, of clusters and machines that also have `ready` in
/// `v1beta2`.
pub const PROVISIONED: Rule = Rule::Custom {
    upgrade: |status| {
        if let Some(&Value::Bool(ready)) = status.get("ready") {
            let initialization = json!({"provisioned": ready});
            status.insert("initialization".to_owned(), initialization);
        }
    },
    downgrade: |status| {
        if let Some(initialization) = status.remove("initialization")
            && let Some(&Value::Bool(provisioned)) = initialization.get("provisioned")
        {
            status.insert("ready".to_owned(), provisioned.into());
        }
    },
};

/// The failure domains of clusters.
pub const FAILURE_DOMAINS: Rule = Rule::MapToList {
    field: "failureDomains",
    key: "name",
};

fn upgrade_conditions(status: &mut Fields) {
    let deprecated = DEPRECATED.into_iter();
    let deprecated: Fields = deprecated
        .filter_map(|field| status.remove_entry(field))
        .collect();
    if !deprecated.is_empty() {
        let deprecated = json!({"v1beta1": deprecated});
        status.insert("deprecated".to_owned(), deprecated);
    }
    if let Some(Value::Object(mut newer)) = status.remove("v1beta2") {
        status.extend(newer.remove_entry("conditions"));
    }
}

fn downgrade_conditions(status: &mut Fields) {
    let deprecated = status.remove("deprecated");
    if let Some(conditions) = status.remove("conditions") {
        let newer = json!({"conditions": conditions});
        status.insert("v1beta2".to_owned(), newer);
    }
    if let Some(Value::Object(mut deprecated)) = deprecated
        && let Some(Value::Object(mut fields)) = deprecated.remove("v1beta1")
    {
        let fields = DEPRECATED
            .into_iter()
            .filter_map(|it| fields.remove_entry(it));
        status.extend(fields);
    }
}

#[cfg(test)]
mod tests {
    use insula_operator::webhook::versions::{Kind, Version};

    use super::*;

    const CLUSTER: Kind = Kind {
        name: "Cluster",
        spec: &[],
        status: &[CONDITIONS, PROVISIONED, FAILURE_DOMAINS],
    };

    #[test]
    fn status_has_the_fields_of_each_contract() {
        for (older, newer) in [
            (json!({}), json!({})),
            (
                json!({"conditions": [1], "v1beta2": {"conditions": [2]}, "failureReason": "r"}),
                json!({
                    "deprecated": {"v1beta1": {"conditions": [1], "failureReason": "r"}},
                    "conditions": [2],
                }),
            ),
            (
                json!({"ready": false}),
                json!({"ready": false, "initialization": {"provisioned": false}}),
            ),
            (
                json!({"failureDomains": {"b": {}, "a": {"controlPlane": true}}}),
                json!({"failureDomains": [{"name": "a", "controlPlane": true}, {"name": "b"}]}),
            ),
        ] {
            let (older, newer) = (json!({"status": older}), json!({"status": newer}));
            for (to, given, expected) in [
                (Version::Newer, &older, &newer),
                (Version::Older, &newer, &older),
            ] {
                let mut content = given.clone();
                CLUSTER.convert(to, &mut content);
                assert_eq!(content, *expected, "{given}");
            }
        }
    }

    #[test]
    fn fields_that_only_one_contract_has_are_left_out() {
        for (to, given) in [
            (Version::Newer, json!({"v1beta2": {}})),
            (Version::Older, json!({"deprecated": {"v1beta1": {}}})),
            (Version::Older, json!({"initialization": {}})),
        ] {
            let mut content = json!({"status": given});
            CLUSTER.convert(to, &mut content);
            assert_eq!(content, json!({"status": {}}));
        }
    }
}
