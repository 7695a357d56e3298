//! The status of a zone.

use insula_identity::decide::Refusal;
use k8s_openapi::jiff::Timestamp;

use crate::kinds::VSphereDeploymentZone;
use crate::operator::condition::{READY, Saying, VCENTER, find, reason};
use crate::operator::identify::sentence;
use crate::operator::paused;
use crate::vcenter;

/// Whether the resource pool and the folder exist.
const PLACEMENT: &str = "PlacementConstraintReady";
/// Whether everything that the failure domain names exists.
const VALIDATED: &str = "FailureDomainValidated";
/// The conditions that `Ready` summarizes.
const PARTS: &[&str] = &[VCENTER, PLACEMENT, VALIDATED];

/// The observed state of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// It is being checked; the last result still holds.
    Asked,
    /// There is no credential for it, or the vCenter does not accept it.
    Refused(Refusal),
    /// The API server did not answer.
    NotKnown(String),
    /// A vCenter call failed.
    Failed(vcenter::Error),
    /// The inventory was checked.
    Seen(Found),
}

/// What the inventory lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Of the placement constraint.
    pub constraint: Option<String>,
    /// Of the failure domain.
    pub domain: Option<String>,
}

/// Returns the zone with its new status.
pub(super) fn conclude(
    zone: &VSphereDeploymentZone,
    sight: &Sight,
    now: Timestamp,
) -> VSphereDeploymentZone {
    let mut after = zone.clone();
    let status = after.status.get_or_insert_default();
    let generation = zone.metadata.generation;
    paused::say(&mut status.conditions, None, generation, now);
    let mut saying = Saying {
        conditions: &mut status.conditions,
        generation,
        now,
    };
    match sight {
        Sight::Asked => {}
        Sight::Refused(refusal) => {
            saying.no(VCENTER, reason(refusal.reason), sentence(refusal));
        }
        Sight::NotKnown(why) => saying.no(VCENTER, "ServerUnavailable", why.clone()),
        // The session has expired, and is opened again.
        Sight::Failed(vcenter::Error::NotAuthenticated) => {}
        Sight::Failed(error) => saying.no(VCENTER, why(error), error.to_string()),
        Sight::Seen(found) => {
            saying.yes(VCENTER, "Available", "");
            seen(
                &mut saying,
                PLACEMENT,
                "PlacementConstraintNotFound",
                &found.constraint,
            );
            seen(
                &mut saying,
                VALIDATED,
                "FailureDomainNotFound",
                &found.domain,
            );
        }
    }
    saying.summary(PARTS);
    let ready = find(&status.conditions, READY);
    status.ready = ready.map(|ready| ready.status == "True");
    after
}

/// Returns the reason for a failed call: a vCenter that answers with a fault is reachable.
fn why(error: &vcenter::Error) -> &'static str {
    match error {
        vcenter::Error::Fault { fault, .. } if fault == "NoPermission" => "NoPermission",
        vcenter::Error::Fault { .. } | vcenter::Error::Gone(_) => "VCenterFault",
        error => reason(error.reason()),
    }
}

fn seen(saying: &mut Saying<'_>, kind: &str, reason: &str, missing: &Option<String>) {
    match missing {
        None => saying.yes(kind, "Ready", ""),
        Some(missing) => saying.no(kind, reason, missing.clone()),
    }
}

#[cfg(test)]
mod tests {
    use insula_identity::reason::Reason;

    use super::*;

    #[test]
    fn a_vcenter_that_refuses_is_not_said_to_be_away() {
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
            let after = conclude(&zone, &Sight::Failed(error), Timestamp::UNIX_EPOCH);
            let status = after.status.unwrap();
            assert_eq!(find(&status.conditions, VCENTER).unwrap().reason, reason);
        }
    }

    #[test]
    fn a_zone_is_ready_exactly_if_everything_it_names_was_seen() {
        let refused = Sight::Refused(Refusal {
            reason: Reason::NoCredentials,
            message: "none".to_owned(),
            hint: Some("name one".to_owned()),
        });
        let lacks = |constraint: Option<&str>, domain: Option<&str>| {
            Sight::Seen(Found {
                constraint: constraint.map(str::to_owned),
                domain: domain.map(str::to_owned),
            })
        };
        let no_answer = vcenter::Error::Unreachable("timeout".to_owned());
        for (sight, ready, message) in [
            (Sight::Asked, None, ""),
            (Sight::Failed(vcenter::Error::NotAuthenticated), None, ""),
            (refused, Some(false), "* VCenterAvailable: none: name one"),
            (
                Sight::NotKnown("no".to_owned()),
                Some(false),
                "* VCenterAvailable: no",
            ),
            (
                Sight::Failed(no_answer),
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
            let after = conclude(&zone, &sight, Timestamp::UNIX_EPOCH);
            let status = after.status.unwrap();
            assert_eq!(status.ready, ready, "{sight:?}");
            let told = find(&status.conditions, READY).map(|told| told.message.as_str());
            assert_eq!(told.unwrap_or_default(), message, "{sight:?}");
        }
    }
}
