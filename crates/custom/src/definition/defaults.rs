//! Validation of the defaults in a schema.

use insula_kinds::{FieldError, Value, field};
use serde_json::json;

use super::place::{Place, Report};
use super::print;
use super::props::Props;
use super::pruned::is_pruned;
use super::requirements::Requirements;
use crate::embedded;
use crate::prune;
use crate::structural::{CompileError, NodeId, Schema};
use crate::validate::{MAX_CHECKS, rule, validate_value};

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// Validates all defaults of a structural schema.
pub(super) fn validate(
    schema: Props<'_>,
    place: Place<'_>,
    requirements: &Requirements<'_>,
) -> Report {
    let mut report = Report::default();
    if !schema.any(|schema| schema.has("default")) {
        return report;
    }
    let (compiled, untyped) = match compile(schema) {
        Ok(compiled) => compiled,
        Err(why) => {
            report.invalid_text(place, "", &why.to_string());
            return report;
        }
    };
    let mut walk = Walk {
        schema: &compiled,
        untyped: untyped.as_ref().unwrap_or(&compiled),
        checks: MAX_CHECKS,
        cost: rule::MAX_WRITE_COST,
        spent: false,
        requirements,
        report: &mut report,
    };
    walk.node(schema, NodeId::ROOT, place, Around::root(NodeId::ROOT));
    report
}

/// The compiled schema, and the one that values are validated against if it differs:
/// Kubernetes does not check the type of defaults for `x-kubernetes-int-or-string`.
fn compile(schema: Props<'_>) -> Result<(Schema, Option<Schema>), CompileError> {
    let compiled = Schema::compile(schema.value())?;
    if !schema.any(|schema| schema.flag(INT_OR_STRING)) {
        return Ok((compiled, None));
    }
    let mut untyped = schema.value().clone();
    forget_int_or_string(&mut untyped);
    Ok((compiled, Some(Schema::compile(&untyped)?)))
}

struct Walk<'a> {
    schema: &'a Schema,
    /// The schema for validating values, with the same node IDs.
    untyped: &'a Schema,
    /// The remaining number of checks. Defaults can be at all levels, and each includes those
    /// below it.
    checks: u64,
    /// The remaining cost budget of rules.
    cost: u64,
    /// Whether the budget of rules is exhausted, which ends the validation.
    spent: bool,
    requirements: &'a Requirements<'a>,
    report: &'a mut Report,
}

/// The path from the enclosing resource, whole or embedded, to a value.
#[derive(Clone, Copy)]
struct Around<'a> {
    parent: Option<&'a Around<'a>>,
    step: Step<'a>,
    /// Whether the value is metadata or part of it.
    metadata: bool,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root(NodeId),
    Child(&'a str),
    Item,
}

impl<'a> Around<'a> {
    fn root(id: NodeId) -> Self {
        Self {
            parent: None,
            step: Step::Root(id),
            metadata: false,
        }
    }

    fn below(&'a self, step: Step<'a>, metadata: bool) -> Self {
        Self {
            parent: Some(self),
            step,
            metadata: self.metadata || metadata,
        }
    }

    /// Wraps the value into a minimal enclosing resource, and returns it with its node.
    fn object(&self, value: Value) -> (NodeId, Value) {
        let parent = self.parent;
        let object = match self.step {
            Step::Root(id) => return (id, typed(value)),
            Step::Child(name) => Value::from_iter([(name, value)]),
            Step::Item => Value::Array(vec![value]),
        };
        match parent {
            Some(parent) => parent.object(object),
            None => (NodeId::ROOT, object),
        }
    }
}

impl Walk<'_> {
    fn node(&mut self, schema: Props<'_>, id: NodeId, place: Place<'_>, around: Around<'_>) {
        if self.spent {
            return;
        }
        let node = self.schema.node(id);
        let around = if node.embedded {
            Around::root(id)
        } else {
            around
        };
        if let Some(default) = schema.get("default") {
            let at = place.field("default");
            if around.metadata {
                self.in_metadata(default, id, at, around);
            } else {
                self.default(default, id, at);
            }
        }
        // Defaults of map values are not validated, as in Kubernetes.
        if let (Some(item), Some(id)) = (schema.item(), node.items) {
            self.node(
                item,
                id,
                place.field("items"),
                around.below(Step::Item, false),
            );
        }
        let whole = is_whole(id, node.embedded);
        let at = place.field("properties");
        for (name, property) in schema.entries("properties") {
            if let Some(id) = node.property(name) {
                let metadata = whole && prune::is_meta(name);
                let around = around.below(Step::Child(name), metadata);
                self.node(property, id, at.key(name), around);
            }
        }
    }

    fn default(&mut self, default: &Value, id: NodeId, place: Place<'_>) {
        let whole = is_whole(id, self.schema.node(id).embedded);
        if !is_pruned(self.schema, id, default) && self.requirements.pruned_defaults() {
            let detail = "must not have unknown fields";
            self.report
                .invalid_as(place, || print::json(Some(default)), detail);
        }
        let mut value = default.clone();
        if let Err(error) = embedded::coerce_value(self.schema, id, &mut value, whole) {
            return self.push(error, place);
        }
        let mut errors = Vec::new();
        embedded::validate_value(self.schema, id, &value, whole, &mut errors);
        if !errors.is_empty() {
            return errors.into_iter().for_each(|error| self.push(error, place));
        }
        self.value(&value, id, place);
    }

    /// Validates a default inside metadata, which must result in valid metadata.
    fn in_metadata(&mut self, default: &Value, id: NodeId, place: Place<'_>, around: Around<'_>) {
        let (root, mut object) = around.object(default.clone());
        let coerced = embedded::coerce_value(self.schema, root, &mut object, true);
        let mut errors = Vec::new();
        match coerced {
            Err(error) => errors.push(error),
            Ok(()) => embedded::validate_value(self.schema, root, &object, true, &mut errors),
        }
        if !errors.is_empty() {
            let detail = format!("must result in valid metadata: {}", field::message(&errors));
            let printed = || crate::validate::print::value(default);
            return self.report.invalid_as(place, printed, &detail);
        }
        self.value(default, id, place);
    }

    /// Validates a default against the schema and its rules.
    fn value(&mut self, value: &Value, id: NodeId, place: Place<'_>) {
        let errors = validate_value(self.untyped, id, value, &mut self.checks);
        if errors.is_empty() {
            return self.rules(value, id, place);
        }
        for mut error in errors {
            // Kubernetes formats an item's index like a field.
            if error.field.starts_with('[') {
                error.field.insert(0, '.');
            }
            self.push(error, place);
        }
    }

    /// Evaluates the rules for an unchanged value and for a new one.
    fn rules(&mut self, value: &Value, id: NodeId, place: Place<'_>) {
        let budget = self.cost;
        for old in [Some(value), None] {
            let (mut left, mut errors) = (budget, Vec::new());
            let done =
                rule::evaluate_value_rules(self.schema, id, value, old, &mut left, &mut errors);
            self.cost = self.cost.min(left);
            self.spent |= !done;
            let wrong = !errors.is_empty();
            errors.into_iter().for_each(|error| self.push(error, place));
            if wrong {
                return;
            }
        }
    }

    /// Reports an error inside a default.
    fn push(&mut self, error: FieldError, place: Place<'_>) {
        self.report.add(place, |mut field| {
            let below = error.field.as_str();
            if !below.is_empty() && below != "<nil>" {
                let dot = if below.starts_with(['.', '[']) {
                    ""
                } else {
                    "."
                };
                field.push_str(dot);
                field.push_str(below);
            }
            FieldError { field, ..error }
        });
    }
}

fn forget_int_or_string(schema: &mut Value) {
    let Value::Object(members) = schema else {
        return;
    };
    members.remove(INT_OR_STRING);
    for name in ["items", "additionalProperties"] {
        if let Some(below) = members.get_mut(name) {
            forget_int_or_string(below);
        }
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(forget_int_or_string);
    }
}

/// Reports whether values are complete objects: the root or embedded resources.
fn is_whole(id: NodeId, embedded: bool) -> bool {
    embedded || id == NodeId::ROOT
}

/// Adds kind and apiVersion, if missing.
fn typed(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        let fields = [("kind", "Validation"), ("apiVersion", "validation/v1")];
        for (name, value) in fields {
            members.entry(name).or_insert_with(|| json!(value));
        }
    }
    object
}
