//! The custom resources. Fields that the operator does not use are kept as they are.

mod cluster;
mod identity;
mod machine;
mod vm;
mod zone;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use cluster::*;
pub use identity::*;
pub use machine::*;
pub use vm::*;
pub use zone::*;

/// Deserializes the conditions that are valid and skips the others: a user who may write a status
/// must not be able to make the whole object unreadable with an invalid time.
fn valid_conditions<'de, D>(input: D) -> Result<Vec<Condition>, D::Error>
where
    D: Deserializer<'de>,
{
    let all = Option::<Vec<Value>>::deserialize(input)?.unwrap_or_default();
    let understood = all
        .into_iter()
        .filter_map(|one| serde_json::from_value(one).ok());
    Ok(understood.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn o10_invalid_condition_does_not_hide_the_others() {
        let condition = |kind: &str, at: &str| {
            json!({
                "type": kind, "status": "True", "reason": "Available", "message": "",
                "lastTransitionTime": at,
            })
        };
        let odd = condition("Odd", "2026-01-01 00:00");
        let right = condition("Available", "2026-01-01T00:00:00Z");
        let identity: VSphereClusterIdentity = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "VSphereClusterIdentity",
            "metadata": {"name": "shared"},
            "spec": {"secretName": "shared"},
            "status": {"ready": true, "conditions": [odd, right, 5]},
        }))
        .unwrap();
        let status = identity.status.unwrap();
        assert_eq!(status.ready, Some(true));
        let kinds: Vec<_> = status
            .conditions
            .iter()
            .map(|condition| &*condition.type_)
            .collect();
        assert_eq!(kinds, ["Available"]);
    }
}
