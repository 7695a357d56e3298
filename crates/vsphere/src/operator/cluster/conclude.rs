//! The status of a cluster.

use insula_capi::contract::latch_provisioned;
use insula_capi::paused;
use insula_identity::credential::Source;
use insula_operator::condition::{ConditionWriter, READY, find_in};
use insula_operator::provider::{Closed, source_text};
use k8s_openapi::jiff::Timestamp;

use crate::kinds::{FailureDomain, VSphereCluster};
use crate::operator::condition::{VCENTER, set_closed};
use crate::operator::credentials::IDENTITY;
use crate::vcenter::MIN_MAJOR_VERSION;

/// Whether the selected zones are ready.
pub(super) const DOMAINS: &str = "FailureDomainsReady";
/// The conditions that `Ready` summarizes.
const PARTS: &[&str] = &[VCENTER, DOMAINS];

/// The observed state of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub vcenter: VCenter,
    pub domains: Domains,
    /// Whether a Cluster owns it: without an owner it is never provisioned.
    pub has_owner: bool,
}

/// The state of the vCenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VCenter {
    /// It accepts the credential of this source.
    Available { version: String, source: Source },
    /// There is no session with it.
    Closed(Closed),
}

/// The zones for machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Domains {
    /// The ready zones; the others are not checked yet, or not ready.
    Zones {
        ready: Vec<FailureDomain>,
        unknown: usize,
        not_ready: usize,
    },
    /// The selector is invalid.
    InvalidSelector,
}

impl Default for Domains {
    fn default() -> Self {
        Self::Zones {
            ready: Vec::new(),
            unknown: 0,
            not_ready: 0,
        }
    }
}

/// Returns the cluster with its new status.
pub(super) fn conclude(
    cluster: &VSphereCluster,
    found: &Observed,
    now: Timestamp,
) -> VSphereCluster {
    let mut after = cluster.clone();
    let mut writer = ConditionWriter::of(&mut after, now);
    paused::set_condition(&mut writer, None);
    let answers = set_vcenter_condition(&mut writer, &found.vcenter);
    let waits = set_domains_condition(&mut writer, &found.domains);
    writer.summary(PARTS);
    let status = after.status.get_or_insert_default();
    if let Domains::Zones { ready, .. } = &found.domains {
        status.failure_domains.clone_from(ready);
    }
    if let (true, VCenter::Available { version, .. }) = (answers, &found.vcenter) {
        status.v_center_version = Some(version.clone());
    }
    let is_provisioned = answers && !waits && found.has_owner;
    latch_provisioned(
        &mut status.ready,
        &mut status.initialization,
        is_provisioned,
    );
    after
}

/// Returns a terminating cluster with its new status, and what it waits for.
pub(super) fn conclude_deletion(
    cluster: &VSphereCluster,
    waits_for: Option<&str>,
    now: Timestamp,
) -> VSphereCluster {
    let mut after = cluster.clone();
    let mut writer = ConditionWriter::of(&mut after, now);
    paused::set_condition(&mut writer, None);
    let message = waits_for.unwrap_or_default();
    writer.set_false(VCENTER, "Deleting", message);
    if find_in(cluster, DOMAINS).is_some() {
        writer.set_false(DOMAINS, "Deleting", "");
    }
    writer.set_false(READY, "Deleting", message);
    after
}

/// Sets the vCenter condition. Returns whether the vCenter can be used.
fn set_vcenter_condition(writer: &mut ConditionWriter<'_>, vcenter: &VCenter) -> bool {
    match vcenter {
        VCenter::Available { version, source } if is_supported(version) => {
            writer.set_true(VCENTER, "Available", source_text(source, IDENTITY));
            return true;
        }
        VCenter::Available { version, .. } => {
            let message = format!("release {version:?} is older than {MIN_MAJOR_VERSION}, or none");
            writer.set_false(VCENTER, "InvalidVCenterVersion", message);
        }
        VCenter::Closed(why) => set_closed(writer, why),
    }
    false
}

/// Sets the condition of the zones. Returns whether some are not checked yet.
fn set_domains_condition(writer: &mut ConditionWriter<'_>, domains: &Domains) -> bool {
    let (ready, unknown, not_ready) = match domains {
        Domains::InvalidSelector => {
            let message = "spec.failureDomainSelector is no selector";
            writer.set_false(DOMAINS, "NotReady", message);
            return false;
        }
        Domains::Zones {
            ready,
            unknown,
            not_ready,
        } => (ready.len(), *unknown, *not_ready),
    };
    if unknown > 0 {
        let message = "Waiting for failure domains to report ready status";
        writer.set_false(DOMAINS, "NotReady", message);
    } else if not_ready > 0 {
        let message = "One or more failure domains are not ready";
        writer.set_false(DOMAINS, "NotReady", message);
    } else if ready > 0 {
        writer.set_true(DOMAINS, "Ready", "");
    } else {
        writer.remove(DOMAINS);
    }
    unknown > 0
}

/// Returns whether a version, as in `8.0.2`, is supported.
fn is_supported(version: &str) -> bool {
    let numbers = version.split(['.', '-', '+']).map(str::parse::<u32>);
    let mut numbers = numbers.map_while(Result::ok);
    numbers
        .next()
        .is_some_and(|major| major >= MIN_MAJOR_VERSION)
        && numbers.next().is_some()
}

#[cfg(test)]
mod tests {
    use insula_identity::decide::Refusal;
    use insula_identity::reason::Reason;

    use super::*;
    use insula_operator::condition::find;

    fn answers(version: &str) -> VCenter {
        VCenter::Available {
            version: version.to_owned(),
            source: Source::Operator,
        }
    }

    fn refused(reason: Reason) -> VCenter {
        VCenter::Closed(Closed::Refused(Refusal {
            reason,
            message: "no".to_owned(),
            hint: None,
        }))
    }

    fn zones(ready: &[&str], unknown: usize, not_ready: usize) -> Domains {
        let ready = ready.iter().map(|name| FailureDomain {
            name: (*name).to_owned(),
            ..FailureDomain::default()
        });
        Domains::Zones {
            ready: ready.collect(),
            unknown,
            not_ready,
        }
    }

    type Summary<'a> = Option<(&'a str, &'a str, &'a str)>;

    fn condition<'a>(cluster: &'a VSphereCluster, kind: &str) -> Summary<'a> {
        let found = find(&cluster.status.as_ref()?.conditions, kind)?;
        Some((&found.status, &found.reason, &found.message))
    }

    const WITH: &str = "with the credentials of the operator";

    #[test]
    fn conditions_and_provisioned_follow_the_observed_state() {
        let none = Domains::default;
        let available = Some(("True", "Available", WITH));
        let ready = Some(("True", "Ready", ""));
        let waits = "Waiting for failure domains to report ready status";
        let some = "One or more failure domains are not ready";
        type Row<'a> = (
            VCenter,
            Domains,
            bool,
            Summary<'a>,
            Summary<'a>,
            Summary<'a>,
            bool,
        );
        let table: [Row<'_>; 9] = [
            (
                VCenter::Closed(Closed::Opening),
                none(),
                true,
                None,
                None,
                None,
                false,
            ),
            (answers("8.0.2"), none(), true, available, None, ready, true),
            (
                answers("8.0.2"),
                none(),
                false,
                available,
                None,
                ready,
                false,
            ),
            (
                answers("8.0.2"),
                zones(&["a"], 0, 0),
                true,
                available,
                ready,
                ready,
                true,
            ),
            (
                answers("8.0.2"),
                zones(&["a"], 1, 1),
                true,
                available,
                Some(("False", "NotReady", waits)),
                Some((
                    "False",
                    "NotReady",
                    "* FailureDomainsReady: Waiting for failure domains to report ready status",
                )),
                false,
            ),
            (
                answers("8.0.2"),
                zones(&[], 0, 1),
                true,
                available,
                Some(("False", "NotReady", some)),
                Some((
                    "False",
                    "NotReady",
                    "* FailureDomainsReady: One or more failure domains are not ready",
                )),
                true,
            ),
            (
                answers("5.5.0"),
                none(),
                true,
                Some((
                    "False",
                    "InvalidVCenterVersion",
                    "release \"5.5.0\" is older than 6, or none",
                )),
                None,
                Some((
                    "False",
                    "NotReady",
                    "* VCenterAvailable: release \"5.5.0\" is older than 6, or none",
                )),
                false,
            ),
            (
                refused(Reason::NamespaceNotAllowed),
                none(),
                true,
                Some(("False", "NamespaceNotAllowed", "no")),
                None,
                Some(("False", "NotReady", "* VCenterAvailable: no")),
                false,
            ),
            (
                refused(Reason::Unreachable),
                Domains::InvalidSelector,
                true,
                Some(("False", "VCenterUnreachable", "no")),
                Some((
                    "False",
                    "NotReady",
                    "spec.failureDomainSelector is no selector",
                )),
                Some((
                    "False",
                    "NotReady",
                    "* VCenterAvailable: no\n* FailureDomainsReady: spec.failureDomainSelector is no selector",
                )),
                false,
            ),
        ];
        for (vcenter, domains, has_owner, of_vcenter, of_domains, of_all, provisioned) in table {
            let found = Observed {
                vcenter,
                domains,
                has_owner,
            };
            let after = conclude(&VSphereCluster::default(), &found, Timestamp::UNIX_EPOCH);
            assert_eq!(condition(&after, VCENTER), of_vcenter, "{found:?}");
            assert_eq!(condition(&after, DOMAINS), of_domains, "{found:?}");
            assert_eq!(condition(&after, READY), of_all, "{found:?}");
            let status = after.status.unwrap();
            assert_eq!(status.ready, provisioned.then_some(true), "{found:?}");
            let initialization = status.initialization.and_then(|once| once.provisioned);
            assert_eq!(initialization, provisioned.then_some(true), "{found:?}");
        }
    }

    #[test]
    fn provisioned_is_never_taken_back() {
        let mut found = Observed {
            vcenter: answers("8.0.2"),
            domains: zones(&["b"], 0, 0),
            has_owner: true,
        };
        let now = Timestamp::UNIX_EPOCH;
        let before = conclude(&VSphereCluster::default(), &found, now);
        for vcenter in [
            VCenter::Closed(Closed::Opening),
            VCenter::Closed(Closed::Unknown("no".to_owned())),
            refused(Reason::SecretNotAvailable),
            answers("none"),
        ] {
            found.vcenter = vcenter;
            found.has_owner = false;
            let after = conclude(&before, &found, now).status.unwrap();
            assert_eq!(after.ready, Some(true));
            assert_eq!(after.initialization.unwrap().provisioned, Some(true));
            assert_eq!(after.v_center_version.as_deref(), Some("8.0.2"));
        }
        let after = conclude_deletion(&before, Some("waits for 2 VSphereMachines"), now);
        let waits = "waits for 2 VSphereMachines";
        assert_eq!(
            condition(&after, VCENTER),
            Some(("False", "Deleting", waits))
        );
        assert_eq!(condition(&after, DOMAINS), Some(("False", "Deleting", "")));
        assert_eq!(after.status.unwrap().ready, Some(true));
    }

    #[test]
    fn versions_are_parsed_as_reported() {
        for (version, expected) in [
            ("8.0.2", true),
            ("6.7", true),
            ("6.0.0-20", true),
            ("10.0.0", true),
            ("7.0.3.01000", true),
            ("5.5.0", false),
            ("8", false),
            ("", false),
            ("v8.0", false),
            ("99999999999.0", false),
        ] {
            assert_eq!(is_supported(version), expected, "{version}");
        }
    }
}
