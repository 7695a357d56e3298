//! The zones for a cluster's machines: those of its server that its selector matches.

use insula_identity::endpoint::Endpoint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use super::conclude::Domains;
use crate::kinds::{FailureDomain, VSphereDeploymentZone};
use crate::names::PORT;

/// Returns the zones of that server that the selector matches, sorted by name. An invalid
/// selector matches nothing.
pub(super) fn of(
    server: &str,
    selector: &LabelSelector,
    zones: &[VSphereDeploymentZone],
) -> Domains {
    let Ok(selector) = Selector::try_from(selector.clone()) else {
        return Domains::InvalidSelector;
    };
    let server = Endpoint::parse(server, PORT).ok();
    let is_there = |zone: &&VSphereDeploymentZone| {
        let there = Endpoint::parse(&zone.spec.server, PORT).ok();
        server.is_some() && there == server && selector.matches(zone.labels())
    };
    let (mut ready, mut unknown, mut not_ready) = (Vec::new(), 0, 0);
    for zone in zones.iter().filter(is_there) {
        match zone.status.as_ref().and_then(|status| status.ready) {
            Some(true) => ready.push(FailureDomain {
                name: zone.name_any(),
                control_plane: zone.spec.control_plane,
                ..FailureDomain::default()
            }),
            Some(false) => not_ready += 1,
            None => unknown += 1,
        }
    }
    ready.sort_by(|one, other| one.name.cmp(&other.name));
    Domains::Zones {
        ready,
        unknown,
        not_ready,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn zone(name: &str, server: &str, label: &str, ready: Option<bool>) -> VSphereDeploymentZone {
        let mut zone = VSphereDeploymentZone::default();
        zone.metadata.name = Some(name.to_owned());
        zone.metadata.labels = Some(BTreeMap::from([("tier".to_owned(), label.to_owned())]));
        zone.spec.server = server.to_owned();
        zone.spec.control_plane = Some(true);
        zone.status.get_or_insert_default().ready = ready;
        zone
    }

    #[test]
    fn domains_are_the_matching_zones_of_the_server_in_order() {
        let zones = [
            zone("c", "vc.example.com", "gold", Some(true)),
            zone("a", "VC.example.com:443", "gold", Some(true)),
            zone("b", "vc.example.com", "gold", Some(false)),
            zone("d", "other.example.com", "gold", Some(true)),
            zone("e", "vc.example.com:8443", "gold", Some(true)),
            zone("f", "vc.example.com", "iron", Some(true)),
            zone("g", "vc.example.com", "gold", None),
            zone("h", "https://vc.example.com", "gold", Some(true)),
        ];
        let table = [
            (
                json!({"matchLabels": {"tier": "gold"}}),
                &["a", "c"][..],
                1,
                1,
            ),
            (json!({}), &["a", "c", "f"], 1, 1),
            (json!({"matchLabels": {"tier": "lead"}}), &[], 0, 0),
        ];
        for (selector, names, unknown, not_ready) in table {
            let text = selector.to_string();
            let selector = serde_json::from_value(selector).unwrap();
            let expected = Domains::Zones {
                ready: names
                    .iter()
                    .map(|name| FailureDomain {
                        name: (*name).to_owned(),
                        control_plane: Some(true),
                        ..FailureDomain::default()
                    })
                    .collect(),
                unknown,
                not_ready,
            };
            assert_eq!(of("vc.example.com", &selector, &zones), expected, "{text}");
        }
        let none = json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": []}]});
        let none = serde_json::from_value(none).unwrap();
        assert_eq!(
            of("vc.example.com", &none, &zones),
            Domains::InvalidSelector
        );
    }
}
