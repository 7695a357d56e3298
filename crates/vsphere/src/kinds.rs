//! The custom resources. Fields that the operator does not use are kept as they are.

mod cluster;
mod identity;
mod machine;
mod vm;
mod zone;

pub use cluster::*;
pub use identity::*;
pub use insula_capi::Initialization;
pub use machine::*;
pub use vm::*;
pub use zone::*;

insula_operator::has_conditions!(
    VSphereClusterStatus,
    VSphereMachineStatus,
    VSphereVMStatus,
    VSphereDeploymentZoneStatus,
);

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
