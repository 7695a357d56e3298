//! Access and token reviews, which are not stored.

use super::check::Errors;
use super::tree::{Node, Path};
use crate::{FieldError, Object};
use insula_gotext::quote;

/// Validates a SubjectAccessReview.
pub(super) fn subject_access(object: &Node<'_>, errors: &mut Errors) {
    subject_spec(&object.get("spec"), errors);
    empty_metadata(object, &[], "must be empty", errors);
}

/// Validates a SelfSubjectAccessReview.
pub(super) fn self_access(object: &Node<'_>, errors: &mut Errors) {
    attributes(&object.get("spec"), errors);
    selectors(&object.get("spec"), errors);
    empty_metadata(object, &[], "must be empty", errors);
}

/// Validates a LocalSubjectAccessReview.
pub(super) fn local_access(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    subject_spec(&spec, errors);
    empty_metadata(
        object,
        &["namespace"],
        "must be empty except for namespace",
        errors,
    );
    let resource = spec.get("resourceAttributes");
    let own = object.get("metadata").get("namespace").text();
    if resource.is_set() && resource.get("namespace").text() != own {
        let detail = "must match metadata.namespace";
        errors.push(resource.get("namespace").invalid_text(detail));
    }
    let path = spec.get("nonResourceAttributes");
    if path.is_set() {
        errors.push(path.invalid("disallowed on this kind of request"));
    }
}

fn subject_spec(spec: &Node<'_>, errors: &mut Errors) {
    attributes(spec, errors);
    let user = spec.get("user");
    if user.is_empty() && spec.get("groups").is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.push(user.invalid_text(detail));
    }
    selectors(spec, errors);
}

fn attributes(spec: &Node<'_>, errors: &mut Errors) {
    let (resource, path) = (
        spec.get("resourceAttributes"),
        spec.get("nonResourceAttributes"),
    );
    match (resource.is_set(), path.is_set()) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            // Go prints the struct by Go field names.
            let (at, verb) = (path.get("path"), path.get("verb"));
            let (at, verb) = (quote(at.text()), quote(verb.text()));
            let printed = format!(r#"{{"Path":{at},"Verb":{verb}}}"#);
            let place = path.path.to_string();
            errors.push(FieldError::invalid_printed(place, &printed, detail));
        }
        (false, false) => {
            let detail =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(resource.invalid(detail));
        }
        _ => {}
    }
}

fn selectors(spec: &Node<'_>, errors: &mut Errors) {
    let resource = spec.get("resourceAttributes");
    for field in ["fieldSelector", "labelSelector"] {
        let selector = resource.get(field);
        if !selector.is_set() {
            continue;
        }
        let (raw, requirements) = (selector.get("rawSelector"), selector.get("requirements"));
        if !raw.is_empty() && !requirements.is_empty() {
            errors.push(raw.invalid("may not specified at the same time as requirements"));
        }
        if raw.is_empty() && requirements.is_empty() {
            let place = selector.path.to_string();
            let detail =
                format!("when {place} is specified, requirements or rawSelector is required");
            errors.push(requirements.required(&detail));
        }
    }
}

/// Validates that a review has no metadata, except fields that the server sets.
fn empty_metadata(object: &Node<'_>, known: &[&str], detail: &str, errors: &mut Errors) {
    let metadata = object.get("metadata");
    let allowed = ["managedFields", "creationTimestamp", "tenant"];
    let is_known = |name: &str| allowed.contains(&name) || known.contains(&name);
    let members = metadata.object().into_iter().flat_map(Object::iter);
    let mut others = members.filter(|(name, value)| !is_known(name) && !value.is_null());
    if others.next().is_some() {
        errors.push(metadata.invalid(detail));
    }
}

/// Validates a TokenReview.
pub(super) fn token(object: &Node<'_>, errors: &mut Errors) {
    let token = object.get("spec").get("token");
    if token.is_empty() {
        let detail = "token is required for TokenReview in authentication";
        let place = token.at(Path::default().field("spec").field("token"));
        errors.push(place.required(detail));
    }
}
