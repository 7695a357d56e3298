//! Defaulting and validation of CustomResourceDefinitions, with Kubernetes' order, wording
//! and field paths.
//!
//! Definitions are expected as [`insula_kinds::decode`] leaves them: every field has its type,
//! and unknown fields are gone. Field paths are those of Kubernetes' internal form.
//!
//! ```text
//! internal_form   the internal form: properties that all versions share are lifted
//! requirements    the requirements on a definition
//! ratchet         the requirements on an update: those that the old definition met
//! spec            group, scope, names, versions, conversion
//! schema          structural schemas, defaults, OpenAPI keywords, list types, CEL rules
//! status          accepted names, stored versions
//! formats         warnings for the client
//! ```

mod cel;
mod conversion;
mod defaults;
mod field_path;
mod formats;
mod internal_form;
mod lists;
mod openapi;
mod place;
mod prepare;
mod print;
mod props;
mod pruned;
mod ratchet;
mod requirements;
mod rules;
mod schema;
mod spec;
mod status;
mod structural;
mod version;

pub use prepare::{default, prepare_create, prepare_status, prepare_update};

use insula_cel::with_stack;
use insula_kinds::{FieldError, Kind, Object, Value, kinds, validate};

use crate::approval::{self, ANNOTATION, Approval};
use crate::condition::{ESTABLISHED, holds};
use crate::structural::rules_below;
use internal_form::InternalForm;
use place::{Place, Report};
use requirements::Requirements;

/// Maximum nesting depth of a definition. Requests cannot be deeper.
const MAX_DEPTH: usize = 256;

/// The result of validating a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Errors, including those of the metadata; empty if the definition is valid.
    pub errors: Vec<FieldError>,
    /// Warnings for the client, if there are no errors.
    pub warnings: Vec<String>,
}

/// Validates a new definition.
pub fn create(object: &Object) -> Verdict {
    if let Some(refusal) = too_deep(object) {
        return refusal;
    }
    with_stack(rules_of(object), || validate_new(object))
}

fn validate_new(object: &Object) -> Verdict {
    let form = InternalForm::of(object);
    let mut report = Report::default();
    let metadata = validate::create(kind(), object);
    metadata.into_iter().for_each(|error| report.push(error));
    spec::validate(&form, &Requirements::new(), &mut report);
    validate_rest(None, object, &form, &mut report);
    verdict(report, || formats::warn(&form, None))
}

/// Validates an update. Violations that existed before remain allowed.
pub fn update(old: &Object, new: &Object) -> Verdict {
    if let Some(refusal) = too_deep(new) {
        return refusal;
    }
    with_stack(rules_of(new), || validate_update(old, new))
}

fn validate_update(old: &Object, new: &Object) -> Verdict {
    let form = InternalForm::of(new);
    let mut report = Report::default();
    let metadata = validate::update(kind(), None, old, new);
    metadata.into_iter().for_each(|error| report.push(error));
    spec::validate(&form, &ratchet::requirements(old, &form), &mut report);
    spec::validate_update(old, &form, holds(old, ESTABLISHED), &mut report);
    validate_rest(Some(old), new, &form, &mut report);
    verdict(report, || {
        formats::warn(&form, Some(&InternalForm::of(old)))
    })
}

/// Validates an update of the status subresource.
pub fn update_status(old: &Object, new: &Object) -> Verdict {
    let mut report = Report::default();
    let metadata = validate::update(kind(), Some("status"), old, new);
    metadata.into_iter().for_each(|error| report.push(error));
    status::validate_names(new, &mut report);
    verdict(report, Vec::new)
}

/// Reports whether the CA bundle of the conversion webhook is valid, if there is one. A new
/// definition may have an invalid one, but is not established with it.
pub fn has_valid_ca_bundle(object: &Object) -> bool {
    !conversion::has_invalid_ca_bundle(InternalForm::of(object).spec)
}

fn rules_of(definition: &Object) -> usize {
    definition.get("spec").map_or(0, rules_below)
}

/// Validates what follows the specification.
fn validate_rest(old: Option<&Object>, new: &Object, form: &InternalForm<'_>, report: &mut Report) {
    status::validate_names(new, report);
    status::validate_stored_versions(new, form, report);
    validate_approval(old, new, form, report);
    let preserved = old.is_some_and(|old| InternalForm::of(old).preserves_unknown());
    if form.preserves_unknown() && !preserved {
        let place = Place::root("spec");
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        report.invalid(place.field("preserveUnknownFields"), &true.into(), detail);
    }
}

fn validate_approval(
    old: Option<&Object>,
    new: &Object,
    form: &InternalForm<'_>,
    report: &mut Report,
) {
    let approval = Approval::of(new);
    let same = old.is_some_and(|old| Approval::of(old) == approval);
    if !approval::is_protected(form.spec.text("group")) || same {
        return;
    }
    let metadata = Place::root("metadata");
    let annotations = metadata.field("annotations");
    let (place, detail) = (annotations.key(ANNOTATION), approval.message(new));
    match approval {
        Approval::Invalid => report.invalid_text(place, approval::annotation(new), &detail),
        Approval::Missing => report.required(place, &detail),
        Approval::Approved | Approval::Bypassed => {}
    }
}

fn verdict(report: Report, warnings: impl FnOnce() -> Vec<String>) -> Verdict {
    let errors = report.into_errors();
    let warnings = if errors.is_empty() {
        warnings()
    } else {
        Vec::new()
    };
    Verdict { errors, warnings }
}

/// Rejects definitions beyond the maximum depth. Schemas are walked recursively, which is safe
/// for decoded requests only; this protects against other callers.
fn too_deep(object: &Object) -> Option<Verdict> {
    let mut level: Vec<&Value> = object.values().collect();
    for _ in 0..MAX_DEPTH {
        if level.is_empty() {
            return None;
        }
        level = level
            .into_iter()
            .flat_map(|value| -> Box<dyn Iterator<Item = &Value>> {
                match value {
                    Value::Object(map) => Box::new(map.values()),
                    Value::Array(list) => Box::new(list.iter()),
                    _ => Box::new(std::iter::empty()),
                }
            })
            .collect();
    }
    Some(Verdict {
        errors: vec![FieldError::forbidden("spec", "exceeded max depth")],
        warnings: Vec::new(),
    })
}

fn kind() -> &'static Kind {
    let id = kinds().find_by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    kinds().get(id.expect("CustomResourceDefinition is a built-in kind"))
}
