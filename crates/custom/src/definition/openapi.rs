//! Validation of OpenAPI keywords. Every node is validated, whether or not the schema is
//! structural.

use super::cel::Cel;
use super::lists;
use super::place::{Place, Report};
use super::props::{Items, Props, SchemaOrBool};
use super::requirements::Requirements;
use super::rules;

/// The types, in the order in which errors list them.
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// Reports whether it is a type of OpenAPI schemas.
pub(super) fn is_type(name: &str) -> bool {
    TYPES.contains(&name)
}

/// The errors of a schema. Those of rules are reported last.
#[derive(Default)]
pub(super) struct Findings {
    /// Errors of the schema.
    pub schema: Report,
    /// Errors of its rules.
    pub rules: Report,
}

/// The context that a node inherits from those above.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// Why defaults are forbidden, if they are.
    defaults: Option<&'static str>,
    /// Whether this is metadata of the object or of an embedded resource.
    metadata: bool,
    /// The outermost enclosing node with values that cannot be correlated between the old and
    /// the new object.
    uncorrelatable: Option<Place<'a>>,
    /// The context of rules; `None` if they are not validated.
    cel: Option<Cel<'a>>,
    /// Whether the schema can be checked for being structural.
    supported: bool,
}

impl<'a> Scope<'a> {
    /// The context of a whole schema.
    pub fn root(supported: bool, cel: Option<Cel<'a>>) -> Self {
        Self {
            supported,
            defaults: None,
            metadata: false,
            uncorrelatable: None,
            cel,
        }
    }

    fn without_rules(self) -> Self {
        Self { cel: None, ..self }
    }

    fn uncorrelatable_below(self, place: Place<'a>) -> Self {
        Self {
            uncorrelatable: self.uncorrelatable.or(Some(place)),
            ..self
        }
    }
}

/// Validates a schema and all below.
pub(super) fn validate(
    schema: Props<'_>,
    place: Place<'_>,
    scope: Scope<'_>,
    requirements: &Requirements<'_>,
    findings: &mut Findings,
) {
    let walk = Walk { requirements };
    walk.node(schema, place, scope, true, findings);
}

struct Walk<'t> {
    requirements: &'t Requirements<'t>,
}

impl Walk<'_> {
    fn node(
        &self,
        schema: Props<'_>,
        place: Place<'_>,
        scope: Scope<'_>,
        root: bool,
        findings: &mut Findings,
    ) {
        let before = findings.schema.found();
        let declared = scope.cel.and_then(|cel| cel.declare(schema));
        let cel = scope.cel;
        let cel = cel.as_ref().map(|cel| cel.with(schema, declared.as_ref()));
        let scope = Scope { cel, ..scope };
        self.keywords(schema, place, scope, &mut findings.schema);
        self.members(schema, place, scope, root, findings);
        self.junctors(schema, place, scope.without_rules(), findings);
        self.items(schema, place, scope, findings);
        let below = scope.without_rules();
        let at = place.field("dependencies");
        for (name, dependency) in schema.entries("dependencies") {
            self.node(dependency, at.key(name), below, false, findings);
        }
        let preserve = "x-kubernetes-preserve-unknown-fields";
        if schema.has(preserve) && !schema.flag(preserve) {
            let detail = "must be true or undefined";
            findings
                .schema
                .invalid(place.field(preserve), &false.into(), detail);
        }
        lists::validate(schema, place, self.requirements, &mut findings.schema);
        rules::validate_rules(schema, place, scope.supported, &mut findings.schema);
        // Errors of rules in an invalid schema would be misleading.
        if findings.schema.found() == before
            && let Some(cel) = scope.cel
        {
            cel.validate(schema, place, scope.uncorrelatable, &mut findings.rules);
        }
    }

    /// Checks for unsupported keywords.
    fn keywords(&self, schema: Props<'_>, place: Place<'_>, scope: Scope<'_>, report: &mut Report) {
        let kind = schema.text("type");
        if self.requirements.valid_types && !kind.is_empty() && !is_type(kind) {
            report.not_supported(place.field("type"), kind, TYPES);
        }
        if let Some(why) = scope.defaults.filter(|_| schema.has("default")) {
            report.forbidden(place.field("default"), why);
        }
        let mut forbid = |name: &'static str, such: bool, detail: &str| {
            if such {
                report.forbidden(place.field(name), detail);
            }
        };
        forbid("id", !schema.text("id").is_empty(), "id is not supported");
        let detail = "additionalItems is not supported";
        forbid("additionalItems", schema.has("additionalItems"), detail);
        let some = |name| schema.entries(name).next().is_some();
        let detail = "patternProperties is not supported";
        forbid("patternProperties", some("patternProperties"), detail);
        let detail = "definitions is not supported";
        forbid("definitions", some("definitions"), detail);
        let detail = "dependencies is not supported";
        forbid("dependencies", schema.has("dependencies"), detail);
        forbid("$ref", schema.has("$ref"), "$ref is not supported");
        let detail = "type cannot be set to null, use nullable as an alternative";
        forbid("type", kind == "null", detail);
        let many = matches!(schema.items(), Items::Many(many) if !many.is_empty());
        let detail = "items must be a schema object and not an array";
        forbid("items", many, detail);
        let embedded = "x-kubernetes-embedded-resource";
        let inside = scope.metadata && schema.flag(embedded);
        forbid(embedded, inside, "must not be used inside of resource meta");
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbid("uniqueItems", schema.flag("uniqueItems"), detail);
    }

    /// Validates the properties of an object, or the values of a map.
    fn members(
        &self,
        schema: Props<'_>,
        place: Place<'_>,
        scope: Scope<'_>,
        root: bool,
        findings: &mut Findings,
    ) {
        let additional = schema.schema_or_bool("additionalProperties");
        let at = place.field("additionalProperties");
        let restricts = !matches!(additional, SchemaOrBool::None | SchemaOrBool::Bool(true));
        if restricts && schema.has_properties() {
            let detail = "additionalProperties and properties are mutual exclusive";
            findings.schema.forbidden(at, detail);
        }
        let cel = scope.cel;
        if let SchemaOrBool::Schema(values) = additional {
            let mut below = scope;
            if scope.metadata {
                below.defaults =
                    Some("must not be set inside additionalProperties applying to object metadata");
            }
            below.cel = cel.as_ref().map(|cel| cel.value(schema));
            self.node(values, at, below, false, findings);
        }
        let mut members = scope;
        if schema
            .maybe_text("x-kubernetes-map-type")
            .is_some_and(|kind| !matches!(kind, "granular" | "atomic"))
        {
            members = members.uncorrelatable_below(place);
        }
        let embedded = root || schema.flag("x-kubernetes-embedded-resource");
        let at = place.field("properties");
        for (name, property) in schema.entries("properties") {
            let mut below = members;
            if let Some(why) = in_metadata(name).filter(|_| embedded) {
                below.metadata = true;
                below.defaults = if root { Some(why) } else { below.defaults };
            }
            below.cel = cel.as_ref().map(|cel| cel.property(schema, name));
            self.node(property, at.key(name), below, false, findings);
        }
    }

    fn junctors(
        &self,
        schema: Props<'_>,
        place: Place<'_>,
        scope: Scope<'_>,
        findings: &mut Findings,
    ) {
        if let Some(not) = schema.child("not") {
            self.node(not, place.field("not"), scope, false, findings);
        }
        for junctor in ["allOf", "oneOf", "anyOf"] {
            let at = place.field(junctor);
            for (index, below) in schema.children(junctor).enumerate() {
                self.node(below, at.index(index), scope, false, findings);
            }
        }
        let at = place.field("definitions");
        for (name, definition) in schema.entries("definitions") {
            self.node(definition, at.key(name), scope, false, findings);
        }
    }

    fn items(
        &self,
        schema: Props<'_>,
        place: Place<'_>,
        scope: Scope<'_>,
        findings: &mut Findings,
    ) {
        let mut below = scope;
        if schema.text("x-kubernetes-list-type") != "map" {
            below = below.uncorrelatable_below(place);
        }
        let at = place.field("items");
        let cel = scope.cel;
        match schema.items() {
            Items::None => {}
            Items::One(item) => {
                below.cel = cel.as_ref().map(|cel| cel.item(schema));
                self.node(item, at, below, false, findings);
            }
            Items::Many(items) => {
                for (index, item) in items.iter().enumerate() {
                    let item = Props::of(Some(item));
                    self.node(
                        item,
                        at.index(index),
                        below.without_rules(),
                        false,
                        findings,
                    );
                }
            }
        }
    }
}

/// Why top-level metadata cannot have defaults.
fn in_metadata(name: &str) -> Option<&'static str> {
    match name {
        "metadata" => Some("must not be set in top-level metadata"),
        "kind" => Some("must not be set in top-level kind"),
        "apiVersion" => Some("must not be set in top-level apiVersion"),
        _ => None,
    }
}
