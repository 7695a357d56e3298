//! The status of a zone.

use insula_capi::paused;
use insula_operator::condition::{ConditionWriter, READY, find_in};
use insula_operator::provider::Closed;
use k8s_openapi::jiff::Timestamp;

use crate::kinds::VSphereDeploymentZone;
use crate::operator::condition::{VCENTER, reason, set_closed};
use crate::vcenter;

/// Whether the resource pool and the folder exist.
const PLACEMENT: &str = "PlacementConstraintReady";
/// Whether everything that the failure domain names exists.
const VALIDATED: &str = "FailureDomainValidated";
/// The conditions that `Ready` summarizes.
const PARTS: &[&str] = &[VCENTER, PLACEMENT, VALIDATED];

/// The observed state of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observation {
    /// There is no session with the vCenter.
    Closed(Closed),
    /// A vCenter call failed.
    Failed(vcenter::Error),
    /// The inventory was checked.
    Checked(Missing),
}

/// What the inventory lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Of the placement constraint.
    pub constraint: Option<String>,
    /// Of the failure domain.
    pub domain: Option<String>,
}

/// Returns the zone with its new status.
pub(super) fn conclude(
    zone: &VSphereDeploymentZone,
    observation: &Observation,
    now: Timestamp,
) -> VSphereDeploymentZone {
    let mut after = zone.clone();
    let mut writer = ConditionWriter::of(&mut after, now);
    paused::set_condition(&mut writer, None);
    match observation {
        Observation::Closed(why) => set_closed(&mut writer, why),
        // The session has expired, and is opened again.
        Observation::Failed(vcenter::Error::NotAuthenticated) => {}
        Observation::Failed(error) => {
            writer.set_false(VCENTER, failure_reason(error), error.to_string())
        }
        Observation::Checked(found) => {
            writer.set_true(VCENTER, "Available", "");
            for (kind, not_found, missing) in [
                (PLACEMENT, "PlacementConstraintNotFound", &found.constraint),
                (VALIDATED, "FailureDomainNotFound", &found.domain),
            ] {
                match missing {
                    None => writer.set_true(kind, "Ready", ""),
                    Some(missing) => writer.set_false(kind, not_found, missing.clone()),
                }
            }
        }
    }
    writer.summary(PARTS);
    let ready = find_in(&after, READY).map(|ready| ready.status == "True");
    after.status.get_or_insert_default().ready = ready;
    after
}

/// Returns the reason for a failed call: a vCenter that answers with a fault is reachable.
fn failure_reason(error: &vcenter::Error) -> &'static str {
    match error {
        vcenter::Error::Fault { fault, .. } if fault == "NoPermission" => "NoPermission",
        vcenter::Error::Fault { .. } | vcenter::Error::Gone(_) => "VCenterFault",
        error => reason(error.reason()),
    }
}

#[cfg(test)]
mod tests {
    use insula_identity::decide::Refusal;
    use insula_identity::reason::Reason;
    use insula_operator::condition::find;

    use super::*;

    #[test]
    fn fault_is_not_reported_as_unreachable() {
        let fault = |fault: &str| vcenter::Error::Fault {
            method: "RetrievePropertiesEx",
            fault: fault.to_owned(),
            message: "no".to_owned(),
        };
        for (error, reason) in [
            (fault("NoPermission"), "NoPermission"),
            (fault("InvalidArgument"), "VCenterFault"),
            (vcenter::Error::Gone("Folder:1".to_owned()), "VCenterFault"),
            (
                vcenter::Error::Unreachable("timeout".to_owned()),
                "VCenterUnreachable",
            ),
            (
                vcenter::Error::NotTrusted("another".to_owned()),
                "CertificateNotTrusted",
            ),
        ] {
            let zone = VSphereDeploymentZone::default();
            let after = conclude(&zone, &Observation::Failed(error), Timestamp::UNIX_EPOCH);
            let status = after.status.unwrap();
            assert_eq!(find(&status.conditions, VCENTER).unwrap().reason, reason);
        }
    }

    #[test]
    fn zone_is_ready_exactly_if_everything_exists() {
        let refused = Observation::Closed(Closed::Refused(Refusal {
            reason: Reason::NoCredentials,
            message: "none".to_owned(),
            hint: Some("name one".to_owned()),
        }));
        let lacks = |constraint: Option<&str>, domain: Option<&str>| {
            Observation::Checked(Missing {
                constraint: constraint.map(str::to_owned),
                domain: domain.map(str::to_owned),
            })
        };
        let no_answer = vcenter::Error::Unreachable("timeout".to_owned());
        for (observation, ready, message) in [
            (Observation::Closed(Closed::Opening), None, ""),
            (
                Observation::Failed(vcenter::Error::NotAuthenticated),
                None,
                "",
            ),
            (refused, Some(false), "* VCenterAvailable: none: name one"),
            (
                Observation::Closed(Closed::Unknown("no".to_owned())),
                Some(false),
                "* VCenterAvailable: no",
            ),
            (
                Observation::Failed(no_answer),
                Some(false),
                "* VCenterAvailable: the vCenter does not answer: timeout",
            ),
            (lacks(None, None), Some(true), ""),
            (
                lacks(Some("no pool"), None),
                Some(false),
                "* PlacementConstraintReady: no pool",
            ),
            (
                lacks(Some("no pool"), Some("no network")),
                Some(false),
                "* PlacementConstraintReady: no pool\n* FailureDomainValidated: no network",
            ),
        ] {
            let zone = VSphereDeploymentZone::default();
            let after = conclude(&zone, &observation, Timestamp::UNIX_EPOCH);
            let status = after.status.unwrap();
            assert_eq!(status.ready, ready, "{observation:?}");
            let ready = find(&status.conditions, READY).map(|ready| ready.message.as_str());
            assert_eq!(ready.unwrap_or_default(), message, "{observation:?}");
        }
    }
}
