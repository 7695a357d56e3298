//! API approval: groups of the Kubernetes community require an annotation with an approval or
//! a reason for its absence.

use insula_gotext::quote;
use insula_gotext::url::Url;
use insula_kinds::{Object, Value};

use crate::condition::{API_APPROVED, Condition};

/// The annotation that holds the approval.
pub(crate) const ANNOTATION: &str = "api-approved.kubernetes.io";

const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The content of the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Neither a URL nor a bypass reason.
    Invalid,
    /// The URL of the approval.
    Approved,
    /// The reason why there is no approval.
    Bypassed,
    /// The annotation is missing or empty.
    Missing,
}

impl Approval {
    /// Reads the annotation of a definition.
    pub fn of(definition: &Object) -> Self {
        let value = annotation(definition);
        if value.is_empty() {
            Self::Missing
        } else if value.starts_with("unapproved") {
            Self::Bypassed
        } else if is_url(value) {
            Self::Approved
        } else {
            Self::Invalid
        }
    }

    /// The message in Kubernetes' wording.
    pub fn message(self, definition: &Object) -> String {
        let value = annotation(definition);
        match self {
            Self::Missing => format!(
                "protected groups must have approval annotation {}, {SEE}",
                quote(ANNOTATION)
            ),
            Self::Bypassed => format!("not approved: {}", quote(value)),
            Self::Approved => format!("approved in {value}"),
            Self::Invalid => format!(
                "protected groups must have approval annotation {} with either a URL or a reason starting with \"unapproved\", {SEE}",
                quote(ANNOTATION)
            ),
        }
    }
}

/// Reports whether the group belongs to the Kubernetes community.
pub(crate) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].into_iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// The approval condition; `None` for groups that are not protected.
pub fn condition(definition: &Object) -> Option<Condition> {
    let group = definition.get("spec").and_then(|spec| spec.get("group"));
    if !is_protected(group.and_then(Value::as_str).unwrap_or_default()) {
        return None;
    }
    let approval = Approval::of(definition);
    let (holds, reason) = match approval {
        Approval::Invalid => (false, "InvalidAnnotation"),
        Approval::Missing => (false, "MissingAnnotation"),
        Approval::Approved => (true, "ApprovedAnnotation"),
        Approval::Bypassed => (false, "UnapprovedAnnotation"),
    };
    let message = approval.message(definition);
    Some(Condition::new(API_APPROVED, holds, reason, &message))
}

/// The annotation's value; empty if missing.
pub(crate) fn annotation(definition: &Object) -> &str {
    let annotations = definition
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"));
    annotations
        .and_then(|annotations| annotations.get(ANNOTATION))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether the text is a URL with a scheme and a host.
fn is_url(text: &str) -> bool {
    let url = Url::parse_request_uri(text);
    url.is_ok_and(|url| !url.scheme.is_empty() && !url.host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(group: &str, annotation: &str) -> Object {
        let value = json!({
            "metadata": {"annotations": {ANNOTATION: annotation}},
            "spec": {"group": group},
        });
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn only_kubernetes_domains_are_protected() {
        for group in ["k8s.io", "x.k8s.io", "kubernetes.io", "a.b.kubernetes.io"] {
            assert!(is_protected(group), "{group}");
        }
        for group in ["ex.io", "mk8s.io", "k8s.io.ex", "xkubernetes.io", ""] {
            assert!(!is_protected(group), "{group}");
        }
    }

    #[test]
    fn condition_reflects_the_annotation() {
        let cases = [
            (
                "",
                false,
                "MissingAnnotation",
                r#"protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#,
            ),
            (
                "unapproved, x",
                false,
                "UnapprovedAnnotation",
                r#"not approved: "unapproved, x""#,
            ),
            (
                "https://github.com/x/1",
                true,
                "ApprovedAnnotation",
                "approved in https://github.com/x/1",
            ),
            (
                "/x",
                false,
                "InvalidAnnotation",
                r#"protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111"#,
            ),
            (
                "https:///x",
                false,
                "InvalidAnnotation",
                r#"protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111"#,
            ),
        ];
        for (annotation, holds, reason, message) in cases {
            let condition = condition(&definition("a.k8s.io", annotation));
            let wanted = Condition::new(API_APPROVED, holds, reason, message);
            assert_eq!(condition, Some(wanted), "{annotation}");
        }
        assert_eq!(condition(&definition("ex.io", "")), None);
    }
}
