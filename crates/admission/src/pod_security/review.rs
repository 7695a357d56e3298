//! Writes of pods and of their controllers.

use insula_kinds::{FieldError, Object, field};

use super::checks::{Violations, evaluate};
use super::config::PodSecurity;
use super::labels::Policy;
use super::level::LevelVersion;
use super::pod::{Container, Pod};

/// A write of a pod or of a controller.
pub struct PodWrite<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The user that writes.
    pub username: &'a str,
    /// What is written.
    pub written: Written<'a>,
}

/// What a [`PodWrite`] writes.
#[derive(Clone, Copy, Debug)]
pub enum Written<'a> {
    /// A pod.
    Pod {
        /// The pod before a change.
        old: Option<&'a Object>,
        /// The pod.
        new: &'a Object,
    },
    /// A controller of pods, or a template of pods.
    Controller {
        /// Its group.
        group: &'a str,
        /// Its resource.
        resource: &'a str,
        /// The object.
        object: &'a Object,
    },
}

/// The subresources of pods that do not change what a pod may do.
const IGNORED_SUBRESOURCES: [&str; 8] = [
    "attach",
    "binding",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// Whether a write of the resource is evaluated: of pods also those of subresources, of their
/// controllers and of namespaces only those of the object itself.
pub fn is_evaluated(group: &str, resource: &str, subresource: Option<&str>) -> bool {
    match (group, resource, subresource) {
        ("", "pods", subresource) => {
            !subresource.is_some_and(|name| IGNORED_SUBRESOURCES.contains(&name))
        }
        ("", "namespaces", None) => true,
        (_, _, None) => Pod::has_template(group, resource),
        _ => false,
    }
}

/// The result of evaluating a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// Why the write is forbidden, if it is.
    pub forbidden: Option<String>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations of the audit event.
    pub annotations: Vec<(&'static str, String)>,
}

const ENFORCED_POLICY: &str = "pod-security.kubernetes.io/enforce-policy";
const AUDIT_VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";
const ERROR: &str = "pod-security.kubernetes.io/error";

impl PodSecurity {
    /// Returns the policy of a namespace with these labels, and the errors of its labels.
    pub fn policy<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> (Policy, Vec<FieldError>) {
        Policy::of_labels(self.defaults, label)
    }

    /// Evaluates a write in a namespace with these labels.
    pub fn review<'a>(
        &self,
        write: &PodWrite<'_>,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> Review {
        if self.exemptions.has_namespace(write.namespace) {
            return Review::exempt("namespace");
        }
        if self.exemptions.has_user(write.username) {
            return Review::exempt("user");
        }
        let (policy, errors) = self.policy(label);
        let is_valid = errors.is_empty();
        match write.written {
            Written::Pod { .. } if is_valid && policy.is_privileged() => Review {
                annotations: vec![(ENFORCED_POLICY, LevelVersion::PRIVILEGED.to_string())],
                ..Review::default()
            },
            Written::Pod {
                old: Some(old),
                new,
            } if !is_significant_update(old, new) => Review::default(),
            Written::Pod { new, .. } => {
                self.evaluate(&policy, &errors, Pod::of(new), Some(policy.enforce))
            }
            Written::Controller { .. }
                if is_valid && policy.warn.is_privileged() && policy.audit.is_privileged() =>
            {
                Review::default()
            }
            Written::Controller {
                group,
                resource,
                object,
            } => {
                let template = Pod::of_template(group, resource, object);
                let reviewed = template.map(|pod| self.evaluate(&policy, &errors, pod, None));
                reviewed.unwrap_or_default()
            }
        }
    }

    fn evaluate(
        &self,
        policy: &Policy,
        errors: &[FieldError],
        pod: Pod<'_>,
        enforced: Option<LevelVersion>,
    ) -> Review {
        if self.exemptions.has_runtime_class(pod.runtime_class()) {
            return Review::exempt("runtimeClass");
        }
        let mut review = Review::default();
        if !errors.is_empty() {
            let error = format!("Failed to parse policy: {}", field::message(errors));
            review.annotations.push((ERROR, error));
        }
        let mut evaluated = Evaluated {
            pod,
            known: Vec::new(),
        };
        if let Some(enforced) = enforced {
            review
                .annotations
                .push((ENFORCED_POLICY, enforced.to_string()));
            review.forbidden = evaluated.message("violates", enforced);
        }
        if let Some(message) = evaluated.message("would violate", policy.audit) {
            review.annotations.push((AUDIT_VIOLATIONS, message));
        }
        // A refusal says more than a warning.
        if review.forbidden.is_none() {
            review
                .warnings
                .extend(evaluated.message("would violate", policy.warn));
        }
        review
    }
}

/// A pod and its violations of the levels that it has been evaluated by: the modes of a policy
/// often have the same level.
struct Evaluated<'a> {
    pod: Pod<'a>,
    known: Vec<(LevelVersion, Violations)>,
}

impl Evaluated<'_> {
    /// Returns the message about the violations of a level, if there are any.
    fn message(&mut self, verb: &str, level: LevelVersion) -> Option<String> {
        let known = self.known.iter().position(|(known, _)| *known == level);
        let index = known.unwrap_or_else(|| {
            self.known.push((level, evaluate(level, self.pod)));
            self.known.len() - 1
        });
        let (_, violations) = &self.known[index];
        let message = || format!("{verb} PodSecurity \"{level}\": {violations}");
        (!violations.is_empty()).then(message)
    }
}

impl Review {
    fn exempt(reason: &str) -> Self {
        Self {
            annotations: vec![(EXEMPT, reason.to_owned())],
            ..Self::default()
        }
    }
}

/// Whether a change of a pod may violate a policy that the pod did not violate before. Of the
/// fields that can be changed, these are the images and the ephemeral containers.
pub fn is_significant_update(old: &Object, new: &Object) -> bool {
    let (old, new) = (Pod::of(old), Pod::of(new));
    let has_other_images = |list: &str| {
        let before = old.list(list).map(Container::image);
        !before.eq(new.list(list).map(Container::image))
    };
    ["containers", "initContainers"]
        .into_iter()
        .any(has_other_images)
        || new.list("ephemeralContainers").any(|container| {
            let mut before = old.list("ephemeralContainers");
            let before = before.find(|it| it.name() == container.name());
            before.map(Container::image) != Some(container.image())
        })
}
