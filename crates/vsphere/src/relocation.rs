//! The rules for moves of clusters to another API server.

use insula_capi::names::GROUP as CLUSTER_API;
use insula_capi::relocation::{Movable, MoveRules, Shared, SharedKind, SharedObjects};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::{Selector, SelectorExt};

use crate::inspect::VSphere;
use crate::names::{GROUP, NAMESPACE};

/// Zones are shared by all namespaces and may have an identity of their own, so an administrator of
/// the target decides about them.
const ZONE: SharedKind = SharedKind {
    group: GROUP,
    kind: "VSphereDeploymentZone",
};
const DOMAIN: SharedKind = SharedKind {
    group: GROUP,
    kind: "VSphereFailureDomain",
};

impl MoveRules for VSphere {
    fn identity_namespace(&self) -> Option<&'static str> {
        Some(NAMESPACE)
    }

    /// Until `biosUUID` is recorded, the virtual machine is found by the UID of its object, which
    /// differs at the target.
    fn obstacle(&self, object: Movable<'_>) -> Option<&'static str> {
        let uuid = object.object.data["spec"]["biosUUID"].as_str();
        let has_no_vm = object.is(GROUP, "VSphereVM") && uuid.unwrap_or_default().is_empty();
        has_no_vm.then_some("has no virtual machine yet")
    }

    fn shared_kinds(&self) -> &'static [SharedKind] {
        &[ZONE, DOMAIN]
    }

    fn uses(&self, object: Movable<'_>, shared: &SharedObjects) -> Vec<Shared> {
        let zones = |is_used: &dyn Fn(&DynamicObject) -> bool| {
            let used = shared.of_kind(ZONE).filter(|zone| is_used(zone));
            let names = used.map(ResourceExt::name_any);
            names.map(|name| Shared { kind: ZONE, name }).collect()
        };
        let spec = &object.object.data["spec"];
        let domain = spec["failureDomain"].as_str().unwrap_or_default();
        match (object.group, object.kind) {
            (GROUP, "VSphereCluster") => {
                let selector = spec["failureDomainSelector"].clone();
                // A selector that cannot be parsed selects nothing at either server.
                let selector = serde_json::from_value(selector)
                    .ok()
                    .flatten()
                    .and_then(|selector: LabelSelector| Selector::try_from(selector).ok());
                let Some(selector) = selector else {
                    return Vec::new();
                };
                let server = &spec["server"];
                zones(&|zone| {
                    zone.data["spec"]["server"] == *server && selector.matches(zone.labels())
                })
            }
            // The failure domain of another provider's Machine is no zone.
            (CLUSTER_API, "Machine") | (GROUP, "VSphereMachine") => {
                zones(&|zone| !domain.is_empty() && zone.name_any() == domain)
            }
            (GROUP, "VSphereDeploymentZone") if !domain.is_empty() => vec![Shared {
                kind: DOMAIN,
                name: domain.to_owned(),
            }],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn shared() -> SharedObjects {
        let zone = |name: &str, server: &str, row: &str| {
            object(json!({
                "metadata": {"name": name, "labels": {"row": row}},
                "spec": {"server": server, "failureDomain": format!("{name}-domain")},
            }))
        };
        let mut shared = SharedObjects::default();
        shared.add(
            ZONE,
            [
                zone("a", "v.test", "1"),
                zone("b", "v.test", "2"),
                zone("c", "other.test", "1"),
            ],
        );
        shared
    }

    #[test]
    fn shared_objects_are_found_by_selector_and_by_name() {
        let select =
            |selector: Value| json!({"server": "v.test", "failureDomainSelector": selector});
        let named = |name: &str| json!({"failureDomain": name});
        for (group, kind, spec, expected) in [
            (GROUP, "VSphereCluster", select(json!({})), &["a", "b"][..]),
            (
                GROUP,
                "VSphereCluster",
                select(json!({"matchLabels": {"row": "1"}})),
                &["a"],
            ),
            (GROUP, "VSphereCluster", select(json!(null)), &[]),
            (GROUP, "VSphereCluster", select(json!("all")), &[]),
            (GROUP, "VSphereMachine", named("c"), &["c"]),
            (GROUP, "VSphereMachine", named(""), &[]),
            (CLUSTER_API, "Machine", named("b"), &["b"]),
            (
                CLUSTER_API,
                "Machine",
                named("zone-of-another-provider"),
                &[],
            ),
            ("evil.example", "VSphereMachine", named("b"), &[]),
            (GROUP, "VSphereDeploymentZone", named("d"), &["d"]),
            (GROUP, "VSphereDeploymentZone", json!({}), &[]),
        ] {
            let used = object(json!({"metadata": {"name": "x"}, "spec": spec}));
            let movable = Movable {
                group,
                kind,
                object: &used,
            };
            let used = VSphere.uses(movable, &shared());
            let names: Vec<&str> = used.iter().map(|shared| shared.name.as_str()).collect();
            assert_eq!(names, expected, "{kind} {spec}");
        }
    }

    #[test]
    fn vm_without_recorded_uuid_must_not_be_moved() {
        let obstacle = Some("has no virtual machine yet");
        for (group, kind, spec, expected) in [
            (GROUP, "VSphereVM", json!({}), obstacle),
            (GROUP, "VSphereVM", json!({"biosUUID": ""}), obstacle),
            (GROUP, "VSphereVM", json!({"biosUUID": "4210"}), None),
            (GROUP, "VSphereMachine", json!({}), None),
            ("evil.example", "VSphereVM", json!({}), None),
        ] {
            let object = object(json!({"metadata": {"name": "x"}, "spec": spec}));
            let movable = Movable {
                group,
                kind,
                object: &object,
            };
            assert_eq!(VSphere.obstacle(movable), expected, "{group} {kind} {spec}");
        }
    }
}
