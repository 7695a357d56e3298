//! Validation of an `openAPIV3Schema`.

use super::cel::{Budget, Cel};
use super::defaults;
use super::openapi::{self, Findings, Scope};
use super::place::{Place, Report};
use super::print::{self, Print};
use super::props::Props;
use super::requirements::Requirements;
use super::structural;

/// The keywords allowed at the root with a status subresource, by their Go names. Others
/// would be lost when only the status is validated.
const AT_ROOT: &[&str] = &[
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// The requirements on one schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaContext {
    /// Objects have a status subresource.
    pub status: bool,
    /// The schema must be structural.
    pub structural: bool,
    /// The cost of rules is not limited, because the schema is unchanged.
    pub any_cost: bool,
}

/// Validates `validation`, or the `schema` of a version.
pub(super) fn validate(
    validation: Props<'_>,
    context: SchemaContext,
    place: Place<'_>,
    requirements: &Requirements<'_>,
    report: &mut Report,
) {
    let Some(schema) = validation.child("openAPIV3Schema") else {
        return;
    };
    let before = report.found();
    if context.status {
        root(schema, place, report);
    }
    if schema.flag("nullable") {
        let detail = "nullable cannot be true at the root";
        report.forbidden(place.field("openAPIV3Schema.nullable"), detail);
    }
    let place = place.field("openAPIV3Schema");
    let unsupported = structural::unsupported(schema);
    let budget = Budget::new(context.any_cost);
    let mut cel = None;
    if context.structural && unsupported.is_none() {
        let faults = structural::validate(schema, place);
        let faults = if faults.is_empty() {
            defaults::validate(schema, place, requirements)
        } else {
            faults
        };
        // Expressions need types, which only structural schemas provide.
        if faults.is_empty() {
            cel = Some(Cel::root(&budget));
        }
        report.append(faults);
    }
    let mut findings = Findings::default();
    let scope = Scope::root(unsupported.is_none(), cel);
    openapi::validate(schema, place, scope, requirements, &mut findings);
    report.append(findings.schema);
    report.append(findings.rules);
    if let Some(why) = unsupported.filter(|_| context.structural)
        && report.found() == before
    {
        report.invalid_text(place, "", why);
    }
    budget.report_excess(place, report);
}

/// Checks that root keywords can also be applied to the status alone.
fn root(schema: Props<'_>, place: Place<'_>, report: &mut Report) {
    let said = print::SCHEMA.iter().filter(|(_, json, print)| match print {
        Print::Text => !schema.text(json).is_empty(),
        Print::Flag => schema.flag(json),
        _ => schema.has(json),
    });
    for (name, _, _) in said {
        if *name == "Type" && schema.text("type") != "object" {
            let detail = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
            let at = place.field("openAPIV3Schema.type");
            return report.invalid_text(at, schema.text("type"), detail);
        }
        if !AT_ROOT.contains(name) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                AT_ROOT.join(" ")
            );
            let at = place.field("openAPIV3Schema");
            return report.invalid_as(at, || print::schema(schema), &detail);
        }
    }
}
