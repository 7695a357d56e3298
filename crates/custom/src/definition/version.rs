//! Validation of versions, and of the properties that they may share: subresources, columns
//! and selectable fields.

use std::collections::HashSet;

use insula_kinds::text::dns1035_label;
use insula_kinds::{FieldError, Value};

use super::field_path;
use super::internal_form::{InternalForm, Shared, Version};
use super::place::{Place, Report};
use super::print;
use super::props::Props;
use super::requirements::Requirements;
use super::schema::{self, SchemaContext};
use super::structural;

/// Maximum number of selectable fields.
pub(super) const MAX_SELECTABLE_FIELDS: usize = 8;

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] = &[
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// Validates one version.
pub(super) fn validate(
    version: &Version<'_>,
    form: &InternalForm<'_>,
    structural: bool,
    place: Place<'_>,
    requirements: &Requirements<'_>,
    report: &mut Report,
) {
    let name = version.raw.text("name");
    let faults = dns1035_label(name);
    if !faults.is_empty() {
        report.invalid_text(place.field("name"), name, &faults.join(","));
    }
    deprecation(version.raw, place, report);
    let subresources = version.subresources();
    if let Some(validation) = version.schema() {
        let status = match form.top(Shared::Subresources) {
            Some(shared) => has_status(Some(Props::of(Some(shared)))),
            None => has_status(subresources),
        };
        let context = SchemaContext {
            status,
            structural,
            any_cost: requirements.any_cost(name),
        };
        schema::validate(
            validation,
            context,
            place.field("schema"),
            requirements,
            report,
        );
    }
    self::subresources(subresources, place.field("subresources"), report);
    let columns = place.field("additionalPrinterColumns");
    self::columns(version.own(Shared::Columns), columns, report);
    let fields = version.own(Shared::SelectableFields);
    if list(fields).is_empty() {
        return;
    }
    let schema = version
        .schema()
        .and_then(|schema| schema.child("openAPIV3Schema"));
    match schema {
        None => {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            report.invalid_text(place.field("selectableFields"), "", detail);
        }
        Some(schema) => {
            let any = requirements.any_fields(Some(name));
            selectable_fields(list(fields), schema, any, place, report);
        }
    }
}

/// Reports whether there is a status subresource.
pub(super) fn has_status(subresources: Option<Props<'_>>) -> bool {
    subresources.is_some_and(|subresources| subresources.has("status"))
}

/// Validates subresources.
pub(super) fn subresources(subresources: Option<Props<'_>>, place: Place<'_>, report: &mut Report) {
    let Some(scale) = subresources.and_then(|subresources| subresources.child("scale")) else {
        return;
    };
    for (name, at, root) in [
        ("specReplicasPath", "scale.specReplicasPath", ".spec"),
        ("statusReplicasPath", "scale.statusReplicasPath", ".status"),
    ] {
        let (path, at) = (scale.text(name), place.field(at));
        let below = |root: &str| {
            path.strip_prefix(root)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        if path.is_empty() {
            report.required(at, "");
        } else if simple_path(path, at, report) && !below(root) {
            report.invalid_text(at, path, &format!("should be a json path under {root}"));
        }
    }
    let (path, at) = (
        scale.text("labelSelectorPath"),
        place.field("scale.labelSelectorPath"),
    );
    let below = path.starts_with(".spec.") || path.starts_with(".status.");
    if !path.is_empty() && simple_path(path, at, report) && !below {
        let detail = "should be a json path under either .spec or .status";
        let printed = || print::json(scale.get("labelSelectorPath"));
        report.invalid_as(at, printed, detail);
    }
}

/// Validates printer columns.
pub(super) fn columns(columns: Option<&Value>, place: Place<'_>, report: &mut Report) {
    for (index, column) in list(columns).iter().enumerate() {
        let column = Props::of(Some(column));
        let place = place.index(index);
        if column.text("name").is_empty() {
            report.required(place.field("name"), "");
        }
        let (kind, at) = (column.text("type"), place.field("type"));
        let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
        if kind.is_empty() {
            report.required(at, &detail);
        } else if !COLUMN_TYPES.contains(&kind) {
            report.invalid_text(at, kind, &detail);
        }
        let format = column.text("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            report.invalid_text(place.field("format"), format, &detail);
        }
        let (path, at) = (column.text("jsonPath"), place.field("JSONPath"));
        if path.is_empty() {
            report.required(at, "");
        } else {
            simple_path(path, at, report);
        }
    }
}

/// Validates selectable fields; `place` is their parent.
pub(super) fn selectable_fields(
    fields: &[Value],
    schema: Props<'_>,
    any_number: bool,
    place: Place<'_>,
    report: &mut Report,
) {
    if let Some(why) = structural::unsupported(schema) {
        return report.invalid_text(place.field("schema.openAPIV3Schema"), "", why);
    }
    let place = place.field("selectableFields");
    let mut seen = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let path = Props::of(Some(field)).text("jsonPath");
        let at = place.index(index);
        let at = at.field("jsonPath");
        if path.is_empty() {
            report.required(at, "");
            continue;
        }
        let target = match field_path::follow(path, schema, false) {
            Ok(target) => target,
            Err(why) => {
                report.invalid_text(at, path, &format!("is an invalid path: {why}"));
                continue;
            }
        };
        if target.root == "metadata" {
            report.invalid_text(at, path, "must not point to fields in metadata");
        }
        let kind = target.schema.map_or("", |schema| schema.text("type"));
        if !matches!(kind, "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            report.invalid_text(at, path, detail);
        }
        if !seen.insert(target.path) {
            report.add(at, |field| FieldError::duplicate(field, &path.into()));
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS && !any_number {
        report.add(place, |field| {
            FieldError::too_many(field, seen.len(), MAX_SELECTABLE_FIELDS)
        });
    }
}

/// The elements of a list that may be absent.
pub(super) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn deprecation(version: Props<'_>, place: Place<'_>, report: &mut Report) {
    let name = "deprecationWarning";
    let Some(warning) = version.maybe_text(name) else {
        return;
    };
    let mut refuse = |detail: &str| {
        report.invalid_as(place.field(name), || print::json(version.get(name)), detail);
    };
    if !version.flag("deprecated") {
        return refuse("can only be set for deprecated versions");
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, letter)| !prints(*letter)) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// Reports whether Go considers the character printable: no control characters, and no
/// whitespace other than the space.
fn prints(letter: char) -> bool {
    let format = matches!(
        letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{10ffff}'
    );
    letter == ' ' || !(letter.is_control() || letter.is_whitespace() || format)
}

/// Checks that the path starts with a dot.
fn simple_path(path: &str, place: Place<'_>, report: &mut Report) -> bool {
    if !path.starts_with('.') {
        let detail = "must be a simple json path starting with .";
        report.invalid_text(place, path, detail);
    }
    path.starts_with('.')
}
