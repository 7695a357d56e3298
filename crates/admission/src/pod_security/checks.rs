//! The checks of the Pod Security Standards, and the versions that have them.

mod capabilities;
mod host;
mod kernel;
mod profiles;
mod seccomp;
mod users;
mod volumes;

use std::fmt;

use super::level::{Level, LevelVersion, Version};
use super::pod::Pod;

/// The violations of a pod, in the order in which they are reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

/// One violated check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Violation {
    /// Says which check is violated.
    reason: &'static str,
    /// Says what of the pod violates it.
    detail: String,
}

/// Evaluates one check.
type Evaluate = fn(Pod<'_>) -> Option<Violation>;

/// A check of one level.
struct Check {
    id: &'static str,
    level: Level,
    /// The minor versions from which on the check is evaluated in this way, in their order.
    since: &'static [(i64, Evaluate)],
    /// The check of `baseline` that is included in this one of `restricted`.
    includes: Option<&'static str>,
}

/// All checks in the order of their messages: those of `baseline` first, each level by ID.
const CHECKS: &[Check] = &[
    baseline("appArmorProfile", &[(0, profiles::app_armor)]),
    baseline("capabilities_baseline", &[(0, capabilities::baseline)]),
    baseline("hostNamespaces", &[(0, host::namespaces)]),
    baseline("hostPathVolumes", &[(0, volumes::host_path)]),
    baseline("hostPorts", &[(0, host::ports)]),
    baseline("hostProbesAndHostLifecycle", &[(34, host::probes)]),
    baseline("privileged", &[(0, capabilities::privileged)]),
    baseline(
        "procMount",
        &[
            (0, kernel::proc_mount),
            (35, kernel::proc_mount_unless_user_namespace),
        ],
    ),
    baseline(
        "seLinuxOptions",
        &[(0, profiles::se_linux), (31, profiles::se_linux_1_31)],
    ),
    baseline(
        "seccompProfile_baseline",
        &[(0, seccomp::annotations), (19, seccomp::baseline)],
    ),
    baseline(
        "sysctls",
        &[
            (0, kernel::sysctls),
            (27, kernel::sysctls_1_27),
            (29, kernel::sysctls_1_29),
            (32, kernel::sysctls_1_32),
        ],
    ),
    baseline("windowsHostProcess", &[(0, host::windows_process)]),
    restricted(
        "allowPrivilegeEscalation",
        &[
            (8, capabilities::privilege_escalation),
            (25, |pod| {
                unless_windows(pod, capabilities::privilege_escalation)
            }),
        ],
        None,
    ),
    restricted(
        "capabilities_restricted",
        &[
            (22, capabilities::restricted),
            (25, |pod| unless_windows(pod, capabilities::restricted)),
        ],
        Some("capabilities_baseline"),
    ),
    restricted(
        "procMount_restricted",
        &[(35, kernel::proc_mount)],
        Some("procMount"),
    ),
    restricted(
        "restrictedVolumes",
        &[(0, volumes::restricted)],
        Some("hostPathVolumes"),
    ),
    restricted(
        "runAsNonRoot",
        &[
            (0, users::run_as_non_root),
            (35, |pod| unless_user_namespace(pod, users::run_as_non_root)),
        ],
        None,
    ),
    restricted(
        "runAsUser",
        &[
            (23, users::run_as_user),
            (35, |pod| unless_user_namespace(pod, users::run_as_user)),
        ],
        None,
    ),
    restricted(
        "seccompProfile_restricted",
        &[
            (19, seccomp::restricted),
            (25, |pod| unless_windows(pod, seccomp::restricted)),
        ],
        Some("seccompProfile_baseline"),
    ),
];

const fn baseline(id: &'static str, since: &'static [(i64, Evaluate)]) -> Check {
    Check {
        id,
        level: Level::Baseline,
        since,
        includes: None,
    }
}

const fn restricted(
    id: &'static str,
    since: &'static [(i64, Evaluate)],
    includes: Option<&'static str>,
) -> Check {
    Check {
        id,
        level: Level::Restricted,
        since,
        includes,
    }
}

/// Evaluates a pod, and returns its violations.
pub fn evaluate(policy: LevelVersion, pod: Pod<'_>) -> Violations {
    let applicable = CHECKS.iter().filter(|check| check.level <= policy.level);
    let violations = applicable.filter_map(|check| {
        let evaluate = check.at(policy.version)?;
        (!is_included(check, policy))
            .then(|| evaluate(pod))
            .flatten()
    });
    Violations(violations.collect())
}

/// Whether a check of the same policy includes this one.
fn is_included(check: &Check, policy: LevelVersion) -> bool {
    policy.level == Level::Restricted
        && CHECKS
            .iter()
            .any(|other| other.includes == Some(check.id) && other.at(policy.version).is_some())
}

impl Check {
    /// How the check is evaluated in a version; `None` if the version does not have it.
    fn at(&self, version: Version) -> Option<Evaluate> {
        let mut newest_first = self.since.iter().rev();
        let found = newest_first.find(|(since, _)| Version::Minor(*since) <= version);
        found.map(|(_, evaluate)| *evaluate)
    }
}

/// Evaluates a check of fields that pods for Windows must not have.
fn unless_windows(pod: Pod<'_>, evaluate: Evaluate) -> Option<Violation> {
    (!pod.is_windows()).then(|| evaluate(pod)).flatten()
}

/// Evaluates a check of users, which are harmless in a user namespace.
fn unless_user_namespace(pod: Pod<'_>, evaluate: Evaluate) -> Option<Violation> {
    (!pod.has_user_namespace()).then(|| evaluate(pod)).flatten()
}

impl Violations {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the violated checks, without what of the pod violates them.
    pub fn reasons(&self) -> String {
        let reasons: Vec<_> = self.0.iter().map(|violation| violation.reason).collect();
        reasons.join(", ")
    }
}

/// The violated checks, each with what of the pod violates it in parentheses.
impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", violation.reason)?;
            if !violation.detail.is_empty() {
                write!(f, " ({})", violation.detail)?;
            }
        }
        Ok(())
    }
}

impl Violation {
    fn new(reason: &'static str, detail: impl Into<String>) -> Option<Self> {
        Some(Self {
            reason,
            detail: detail.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_in_the_order_of_their_messages() {
        let keys: Vec<_> = CHECKS.iter().map(|check| (check.level, check.id)).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for check in CHECKS {
            assert!(
                check.since.is_sorted_by_key(|(since, _)| *since),
                "{}",
                check.id
            );
            let included = check.includes.into_iter();
            let known = |id: &str| keys.contains(&(Level::Baseline, id));
            assert!(included.into_iter().all(known), "{}", check.id);
        }
    }
}
