//! Validation of the spec: group, scope, names and versions.

use std::collections::HashSet;

use insula_kinds::Object;
use insula_kinds::text::{dns_subdomain, dns1035_label};

use super::conversion;
use super::internal_form::{InternalForm, Shared, Version};
use super::place::{Place, Report};
use super::print;
use super::props::Props;
use super::requirements::Requirements;
use super::schema::{self, SchemaContext};
use super::version;

const SCOPES: &[&str] = &["Cluster", "Namespaced"];

/// Validates the spec.
pub(super) fn validate(
    form: &InternalForm<'_>,
    requirements: &Requirements<'_>,
    report: &mut Report,
) {
    let place = Place::root("spec");
    group(form.spec, place, report);
    let (scope, at) = (form.spec.text("scope"), place.field("scope"));
    if scope.is_empty() {
        report.required(at, "");
    } else if !SCOPES.contains(&scope) {
        report.not_supported(at, scope, SCOPES);
    }
    schemas(form, place, requirements, report);
    let structural = needs_structure(form, requirements);
    if form.preserves_unknown() && has_defaults(form) {
        let detail = "must be false in order to use defaults in the schema";
        report.invalid(place.field("preserveUnknownFields"), &true.into(), detail);
    }
    let versions = place.field("versions");
    for (index, version) in form.versions().enumerate() {
        let at = versions.index(index);
        version::validate(&version, form, structural, at, requirements, report);
    }
    self::versions(form, place, report);
    for name in ["plural", "singular", "kind", "listKind"] {
        let names = form.spec.child("names").unwrap_or(Props::of(None));
        if names.text(name).is_empty() {
            let at = place.field("names");
            report.required(at.field(name), "");
        }
    }
    names(form.spec.child("names"), place.field("names"), report);
    shared(form, structural, place, requirements, report);
    conversion::validate(form, place, requirements, report);
}

/// Checks immutable fields, some of which are only immutable once established.
pub(super) fn validate_update(
    old: &Object,
    new: &InternalForm<'_>,
    established: bool,
    report: &mut Report,
) {
    let old = Props::of(old.get("spec"));
    let place = Place::root("spec");
    let names = |spec: Props<'_>, name: &str| {
        let names = spec.child("names").map(|names| names.text(name).to_owned());
        names.unwrap_or_default()
    };
    let mut keep = |at: Place<'_>, before: &str, now: &str| {
        if before != now {
            report.invalid_text(at, now, "field is immutable");
        }
    };
    let at = place.field("names");
    if established {
        let scope = place.field("scope");
        keep(scope, old.text("scope"), new.spec.text("scope"));
        keep(
            at.field("kind"),
            &names(old, "kind"),
            &names(new.spec, "kind"),
        );
    }
    let group = place.field("group");
    keep(group, old.text("group"), new.spec.text("group"));
    keep(
        at.field("plural"),
        &names(old, "plural"),
        &names(new.spec, "plural"),
    );
}

/// Validates requested or accepted names.
pub(super) fn names(names: Option<Props<'_>>, place: Place<'_>, report: &mut Report) {
    let names = names.unwrap_or(Props::of(None));
    for name in ["plural", "singular"] {
        let text = names.text(name);
        let faults = dns1035_label(text);
        if !text.is_empty() && !faults.is_empty() {
            report.invalid_text(place.field(name), text, &faults.join(","));
        }
    }
    for name in ["kind", "listKind"] {
        let text = names.text(name);
        let faults = dns1035_label(&text.to_lowercase());
        if !text.is_empty() && !faults.is_empty() {
            let faults = faults.join(",");
            let detail = format!("may have mixed case, but should otherwise match: {faults}");
            report.invalid_text(place.field(name), text, &detail);
        }
    }
    labels(names, "shortNames", place, report);
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        let detail = "kind and listKind may not be the same";
        report.invalid_text(place.field("listKind"), kind, detail);
    }
    labels(names, "categories", place, report);
}

fn labels(names: Props<'_>, name: &str, place: Place<'_>, report: &mut Report) {
    let at = place.field(name);
    for (index, text) in names.texts(name).enumerate() {
        let faults = dns1035_label(text);
        if !faults.is_empty() {
            report.invalid_text(at.index(index), text, &faults.join(","));
        }
    }
}

fn group(spec: Props<'_>, place: Place<'_>, report: &mut Report) {
    let (group, at) = (spec.text("group"), place.field("group"));
    if group.is_empty() {
        return report.required(at, "");
    }
    let faults = dns_subdomain(group);
    if !faults.is_empty() {
        report.invalid_text(at, group, &faults.join(","));
    } else if !group.contains('.') {
        report.invalid_text(at, group, "should be a domain with at least one dot");
    }
}

/// Checks that every version has a schema, or at least every served one.
fn schemas(
    form: &InternalForm<'_>,
    place: Place<'_>,
    requirements: &Requirements<'_>,
    report: &mut Report,
) {
    let has = |schema: Option<Props<'_>>| schema.is_some_and(|it| it.has("openAPIV3Schema"));
    if has(form.validation()) || !requirements.schemas && form.preserves_unknown() {
        return;
    }
    let versions = place.field("versions");
    for (index, version) in form.versions().enumerate() {
        let at = versions.index(index);
        let at = at.field("schema");
        let at = at.field("openAPIV3Schema");
        if has(version.schema()) {
            continue;
        }
        if requirements.schemas {
            report.required(at, "");
        } else if version.raw.flag("served") {
            report.required(at, "because otherwise all fields are pruned");
        }
    }
}

fn has_defaults(form: &InternalForm<'_>) -> bool {
    form.any_schema(|schema| schema.has("default"))
}

/// Pruning, defaults and all Kubernetes extensions require structural schemas.
fn needs_structure(form: &InternalForm<'_>, requirements: &Requirements<'_>) -> bool {
    let extended = |schema: Props<'_>| {
        schema.has("default")
            || schema.flag("x-kubernetes-embedded-resource")
            || schema.has("x-kubernetes-preserve-unknown-fields")
            || schema.flag("x-kubernetes-int-or-string")
            || !schema.list("x-kubernetes-list-map-keys").is_empty()
            || schema.has("x-kubernetes-list-type")
            || !schema.list("x-kubernetes-validations").is_empty()
    };
    requirements.structural || !form.preserves_unknown() || form.any_schema(extended)
}

/// Validates the versions as a whole.
fn versions(form: &InternalForm<'_>, place: Place<'_>, report: &mut Report) {
    let (mut names, mut stored) = (HashSet::new(), 0);
    let mut unique = true;
    for version in form.versions() {
        unique &= names.insert(version.raw.text("name"));
        stored += usize::from(version.raw.flag("storage"));
    }
    let at = place.field("versions");
    if !unique {
        let detail = "must contain unique version names";
        report.invalid_as(at, || print::versions(form), detail);
    }
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        report.invalid_as(at, || print::versions(form), detail);
    }
    let first = form.version();
    let faults = dns1035_label(first);
    if !first.is_empty() && !faults.is_empty() {
        report.invalid_text(place.field("version"), first, &faults.join(","));
    }
}

/// Validates the lifted properties.
fn shared(
    form: &InternalForm<'_>,
    structural: bool,
    place: Place<'_>,
    requirements: &Requirements<'_>,
    report: &mut Report,
) {
    let subresources = form.top(Shared::Subresources);
    let subresources = subresources.map(|subresources| Props::of(Some(subresources)));
    if let Some(validation) = form.validation() {
        let own = |version: Version<'_>| version::has_status(version.subresources());
        let context = SchemaContext {
            status: version::has_status(subresources) || form.versions().any(own),
            structural,
            any_cost: requirements.any_cost(form.version()),
        };
        schema::validate(
            validation,
            context,
            place.field("validation"),
            requirements,
            report,
        );
    }
    version::subresources(subresources, place.field("subresources"), report);
    let columns = place.field("additionalPrinterColumns");
    version::columns(form.top(Shared::Columns), columns, report);
    let fields = version::list(form.top(Shared::SelectableFields));
    if fields.is_empty() {
        return;
    }
    match form.validation() {
        None => {
            let detail = "may only be set when validations.schema is included";
            report.invalid_text(place.field("selectableFields"), "", detail);
        }
        Some(validation) => {
            let schema = validation
                .child("openAPIV3Schema")
                .unwrap_or(Props::of(None));
            let any = requirements.any_fields(None);
            version::selectable_fields(fields, schema, any, place, report);
        }
    }
}
