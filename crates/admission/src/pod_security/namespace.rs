//! Writes of namespaces: the validity of their labels, and what new labels mean for the pods
//! that exist.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use insula_kinds::{FieldError, Object, Value};
use serde::Deserialize;

use super::checks::evaluate;
use super::config::PodSecurity;
use super::labels::{AUDIT, AUDIT_VERSION, ENFORCE, ENFORCE_VERSION, Policy, WARN, WARN_VERSION};
use super::level::LevelVersion;
use super::pod::Pod;

/// How many of a namespace's pods are checked when its labels change.
pub const MAX_PODS_TO_CHECK: usize = 3000;

/// How long pods are checked when the labels of their namespace change.
pub const POD_CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// A write of a namespace.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceWrite<'a> {
    /// The name.
    pub name: &'a str,
    /// The namespace before a change.
    pub old: Option<&'a Object>,
    /// The namespace.
    pub new: &'a Object,
}

/// The result of evaluating the labels of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceReview {
    /// The labels are accepted, perhaps with a warning.
    Accepted(Option<String>),
    /// The labels are accepted, and the existing pods are to be checked by this level.
    CheckPods(LevelVersion),
    /// The labels are invalid.
    Invalid(Vec<FieldError>),
}

impl PodSecurity {
    /// Evaluates the labels of a namespace.
    pub fn review_namespace(&self, write: &NamespaceWrite<'_>) -> NamespaceReview {
        let (policy, errors) = self.policy(|name| label(write.new, name));
        let before = write.old.map(|old| self.policy(|name| label(old, name)));
        // Labels that were invalid already do not prevent other changes.
        let is_known = before.as_ref().is_some_and(|(_, known)| *known == errors);
        if !errors.is_empty() && !is_known {
            return NamespaceReview::Invalid(errors);
        }
        let must_check = match before {
            None => false,
            Some((before, _)) => !allows_all_of(policy.enforce, before.enforce),
        };
        let is_exempt = self.exemptions.has_namespace(write.name);
        match (is_exempt, must_check) {
            (false, true) => NamespaceReview::CheckPods(policy.enforce),
            (true, _) if must_check || write.old.is_none() => {
                NamespaceReview::Accepted(self.exemption_warning(write, &policy))
            }
            _ => NamespaceReview::Accepted(None),
        }
    }

    /// Checks existing pods, given as JSON by `body`, and returns warnings about those that
    /// violate the level. Of the pods of one controller, which are alike, one is checked before
    /// all others. `is_late` says when to stop.
    pub fn review_existing_pods<T>(
        &self,
        namespace: &str,
        level: LevelVersion,
        pods: &[T],
        body: impl Fn(&T) -> Cow<'_, [u8]>,
        is_late: impl Fn() -> bool,
    ) -> Vec<String> {
        let pods = self.prioritize(pods, &body, &is_late);
        let mut alike: BTreeMap<String, Alike> = BTreeMap::new();
        let mut checked = 0;
        for pod in pods.iter().take(MAX_PODS_TO_CHECK) {
            checked += 1;
            let pod: Object = serde_json::from_slice(&body(pod)).unwrap_or_default();
            let violations = evaluate(level, Pod::of(&pod));
            if !violations.is_empty() {
                let found = alike.entry(violations.reasons()).or_default();
                found.add(text(&pod, "name"));
            }
            if is_late() {
                break;
            }
        }
        let mut warnings = Vec::new();
        if checked < pods.len() {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {} \
                 existing pods",
                pods.len()
            ));
        }
        if !alike.is_empty() {
            warnings.push(format!(
                "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce \
                 level \"{level}\""
            ));
        }
        let mut found: Vec<_> = alike
            .iter()
            .map(|(reasons, alike)| format!("{alike}: {reasons}"))
            .collect();
        found.sort_unstable();
        warnings.append(&mut found);
        warnings
    }

    /// Returns the pods that are not exempt: those without a controller and the first of each
    /// controller, then the others.
    fn prioritize<'a, T>(
        &self,
        pods: &'a [T],
        body: impl Fn(&T) -> Cow<'_, [u8]>,
        is_late: impl Fn() -> bool,
    ) -> Vec<&'a T> {
        let (mut first, mut others) = (Vec::new(), Vec::new());
        let mut controllers = HashSet::new();
        for pod in pods {
            // The order no longer matters when none of the remaining pods will be checked.
            if is_late() {
                others.push(pod);
                continue;
            }
            let outline: Outline = serde_json::from_slice(&body(pod)).unwrap_or_default();
            let class = outline.spec.runtime_class_name.as_deref();
            if self.exemptions.has_runtime_class(class) {
                continue;
            }
            match outline.metadata.controller() {
                Some(uid) if controllers.contains(&uid) => others.push(pod),
                Some(uid) => {
                    controllers.insert(uid);
                    first.push(pod);
                }
                None => first.push(pod),
            }
        }
        first.append(&mut others);
        first
    }

    /// Returns the warning about labels of an exempt namespace, which have no effect.
    fn exemption_warning(&self, write: &NamespaceWrite<'_>, policy: &Policy) -> Option<String> {
        if policy.is_privileged() || policy.is_equivalent(&self.defaults) {
            return None;
        }
        let modes = [
            ("enforce", policy.enforce, [ENFORCE, ENFORCE_VERSION]),
            ("audit", policy.audit, [AUDIT, AUDIT_VERSION]),
            ("warn", policy.warn, [WARN, WARN_VERSION]),
        ];
        let ignored = modes.iter().filter(|(_, level, labels)| {
            let is_set = labels.iter().any(|name| label(write.new, name).is_some());
            is_set && !level.is_privileged()
        });
        let ignored: Vec<_> = ignored
            .map(|(mode, level, _)| format!("{mode}={level}"))
            .collect();
        Some(format!(
            "namespace \"{}\" is exempt from Pod Security, and the policy ({}) will be ignored",
            write.name,
            ignored.join(", ")
        ))
    }
}

/// Whether every pod that `old` allows is known to be allowed by `new`.
fn allows_all_of(new: LevelVersion, old: LevelVersion) -> bool {
    new.is_privileged() || (new.version == old.version && new.level <= old.level)
}

fn label<'a>(namespace: &'a Object, name: &str) -> Option<&'a str> {
    namespace
        .get("metadata")?
        .get("labels")?
        .get(name)?
        .as_str()
}

fn text<'a>(pod: &'a Object, member: &str) -> &'a str {
    let metadata = pod.get("metadata").unwrap_or(&Value::Null);
    metadata[member].as_str().unwrap_or_default()
}

/// Pods with the same violations.
#[derive(Default)]
struct Alike {
    /// The first of their names.
    name: String,
    count: usize,
}

impl Alike {
    fn add(&mut self, name: &str) {
        if self.count == 0 || name < self.name.as_str() {
            name.clone_into(&mut self.name);
        }
        self.count += 1;
    }
}

impl std::fmt::Display for Alike {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.name;
        match self.count {
            1 => f.write_str(name),
            2 => write!(f, "{name} (and 1 other pod)"),
            count => write!(f, "{name} (and {} other pods)", count - 1),
        }
    }
}

/// The fields of a pod that decide when it is checked.
#[derive(Default, Deserialize)]
struct Outline {
    #[serde(default)]
    metadata: OutlineMetadata,
    #[serde(default)]
    spec: OutlineSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutlineMetadata {
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutlineSpec {
    runtime_class_name: Option<String>,
}

#[derive(Deserialize)]
struct OwnerReference {
    uid: String,
    #[serde(default)]
    controller: Option<bool>,
}

impl OutlineMetadata {
    /// The UID of the controller.
    fn controller(self) -> Option<String> {
        let mut owners = self.owner_references.into_iter();
        let found = owners.find(|owner| owner.controller == Some(true));
        found.map(|owner| owner.uid)
    }
}
