//! What is wrong with a configuration of admission, in Kubernetes' order and words.
//!
//! Like `insula_kinds::validate`, but with what that cannot know: the expressions.

mod binding;
mod client;
mod policy;
mod rule;
mod webhook;

use insula_kinds::validate::check::Errors;
use insula_kinds::validate::meta;
use insula_kinds::validate::tree::Node;
use insula_kinds::{FieldError, Kind, Object};

pub use client::{service, url};

/// The group of everything that is judged here.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// Names that end so are for what comes from files.
const STATIC: &str = ".static.k8s.io";

/// What there is to say about a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong with it.
    pub errors: Vec<FieldError>,
    /// What its author should know.
    pub warnings: Vec<String>,
}

/// Whether objects of the kind are judged here.
pub fn judges(kind: &Kind) -> bool {
    kind.group == GROUP && rules(&kind.kind).is_some()
}

/// What is wrong with a configuration that is to be created.
pub fn create(kind: &Kind, object: &Object) -> Verdict {
    let new = Node::root(object);
    let mut errors = Vec::new();
    meta::create(kind, &new, &mut errors);
    if let Some(rules) = rules(&kind.kind) {
        rules(None, &new, &mut errors);
    }
    Verdict {
        errors,
        warnings: warnings(kind, &new),
    }
}

/// What is wrong with a change of one, or of what `subresource` covers of it. What was
/// allowed before and is not changed stays allowed.
pub fn update(kind: &Kind, subresource: Option<&str>, old: &Object, new: &Object) -> Verdict {
    let (old, new) = (Node::root(old), Node::root(new));
    let mut errors = Vec::new();
    meta::update(&old, &new, &mut errors);
    if subresource == Some("status") {
        policy::status(&new.get("status"), &mut errors);
    } else if let Some(rules) = rules(&kind.kind) {
        meta::create(kind, &new, &mut errors);
        rules(Some(&old), &new, &mut errors);
    }
    Verdict {
        errors,
        warnings: warnings(kind, &new),
    }
}

/// What is asked of a configuration that was another before, or none.
type Rules = fn(Option<&Node<'_>>, &Node<'_>, &mut Errors);

fn rules(kind: &str) -> Option<Rules> {
    Some(match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => webhook::all,
        "ValidatingAdmissionPolicy" => policy::validating,
        "MutatingAdmissionPolicy" => policy::mutating,
        "ValidatingAdmissionPolicyBinding" => binding::validating,
        "MutatingAdmissionPolicyBinding" => binding::mutating,
        _ => return None,
    })
}

fn warnings(kind: &Kind, object: &Node<'_>) -> Vec<String> {
    let name = object.get("metadata").get("name").text();
    if !judges(kind) || !name.ends_with(STATIC) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with {STATIC:?} are reserved for static manifest-based \
         configurations and cannot be managed via the API"
    )]
}
