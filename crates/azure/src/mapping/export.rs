//! Values that are written into Secrets and ConfigMaps.
//!
//! First [`calls`] says which requests to ARM are needed, then [`objects`] takes the values from
//! their responses and from the status.

pub mod cel;
mod collector;
pub mod limits;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insula_identity::credential::Hidden;
use serde_json::Value;

use collector::Collector;
use limits::{
    CostBudget, MAX_EXPRESSION_BYTES, MAX_EXPRESSIONS, MAX_TARGET_BYTES, MAX_TOTAL_BYTES,
};

use crate::names::RESOURCE_ID;
use crate::table::export::{Encoding, IdPart};
use crate::table::{Kind, Source};

/// A kind of object that values are written into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

/// A request to ARM that returns values to export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// The number of the call, by which [`objects`] gets its response.
    pub index: usize,
    /// Whether it is a POST; a GET otherwise.
    pub post: bool,
    /// The ARM id.
    pub id: String,
    /// What follows the ARM id in the path.
    pub suffix: String,
    /// The api-version.
    pub api_version: String,
}

/// A Secret or ConfigMap to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Whether it is a Secret or a ConfigMap.
    pub target: Target,
    /// The name.
    pub name: String,
    /// The data.
    pub data: BTreeMap<String, Hidden>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// The value of a CEL expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluated {
    /// A text.
    Text(Hidden),
    /// Texts by key.
    Texts(BTreeMap<String, Hidden>),
}

/// An evaluator of CEL expressions: [`cel::Cel`], and others in tests.
pub trait Expressions {
    /// Returns the fields of `secret` that an expression uses.
    ///
    /// # Errors
    ///
    /// If the expression is invalid. The error is a message.
    fn secrets_used(&self, expression: &str) -> Result<BTreeSet<String>, String>;

    /// Evaluates an expression over the variables `self` and `secret`, within a budget from which
    /// its cost is taken.
    ///
    /// # Errors
    ///
    /// If the expression is invalid or fails. The error is a message without secrets.
    fn evaluate(
        &self,
        expression: &str,
        object: &Value,
        secrets: &BTreeMap<String, Hidden>,
        budget: &mut CostBudget,
    ) -> Result<Evaluated, String>;
}

/// An export that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The object has no ARM id yet.
    #[error("the resource has no ARM id yet")]
    NoId,
    /// Two values would be written under one key.
    #[error("{target:?} {name:?} gets the key {key:?} from two exports")]
    Collision {
        /// Whether it is a Secret or a ConfigMap.
        target: Target,
        /// The name.
        name: String,
        /// The key.
        key: String,
    },
    /// A destination has no name or no key.
    #[error("spec.operatorSpec.{field} needs a name and a key")]
    Destination {
        /// The field.
        field: String,
    },
    /// An expression is invalid or fails.
    #[error("the expression {expression:?} failed: {message}")]
    Expression {
        /// The expression.
        expression: String,
        /// What is wrong.
        message: String,
    },
    /// There are too many expressions.
    #[error("spec.operatorSpec has {count} expressions, and {MAX_EXPRESSIONS} are allowed")]
    ManyExpressions {
        /// Their number.
        count: usize,
    },
    /// An expression is too long.
    #[error("spec.operatorSpec has an expression of more than {MAX_EXPRESSION_BYTES} bytes")]
    LongExpression,
    /// A Secret or ConfigMap would be too large.
    #[error("{target:?} {name:?} would have more than {MAX_TARGET_BYTES} bytes")]
    LargeTarget {
        /// Whether it is a Secret or a ConfigMap.
        target: Target,
        /// The name.
        name: String,
    },
    /// All Secrets and ConfigMaps together would be too large.
    #[error("the exported objects would have more than {MAX_TOTAL_BYTES} bytes together")]
    LargeTotal,
    /// A value is not encoded as expected.
    #[error("the value of {field} is not base64")]
    Encoding {
        /// The field.
        field: String,
    },
}

/// Returns the requests that the exports of an object need.
///
/// # Errors
///
/// If an expression is invalid, or the object has no ARM id yet.
pub fn calls(
    kind: &Kind,
    object: &Value,
    expressions: &dyn Expressions,
) -> Result<Vec<PlannedCall>, ExportError> {
    limits::check(object)?;
    let wanted = wanted_secrets(object, expressions)?;
    let exports = kind.exports();
    let indexes: BTreeSet<usize> = wanted
        .iter()
        .filter_map(|field| match exports.secrets.get(field)? {
            Source::Call { call, .. } => Some(*call),
            _ => None,
        })
        .collect();
    let mut planned = Vec::new();
    for index in indexes {
        let Some(call) = exports.calls.get(index) else {
            continue;
        };
        let id = match &call.id {
            Some(path) => path.select(&object["status"]).and_then(Value::as_str),
            None => own_id(object),
        };
        let suffix = call.post.as_ref().or(call.get.as_ref());
        planned.push(PlannedCall {
            index,
            post: call.post.is_some(),
            id: id.ok_or(ExportError::NoId)?.to_owned(),
            suffix: suffix.cloned().unwrap_or_default(),
            api_version: call.api_version.clone(),
        });
    }
    Ok(planned)
}

/// Returns whether an object exports any value.
pub fn has_exports(object: &Value) -> bool {
    let operator = &object["spec"]["operatorSpec"];
    let has_destinations = |member: &str| destinations(operator, member).next().is_some();
    has_destinations("secrets") || has_destinations("configMaps") || limits::has_expressions(object)
}

/// Returns the names of the secret values that destinations and expressions want.
fn wanted_secrets(
    object: &Value,
    expressions: &dyn Expressions,
) -> Result<BTreeSet<String>, ExportError> {
    let operator = &object["spec"]["operatorSpec"];
    let mut wanted: BTreeSet<_> = destinations(operator, "secrets")
        .map(|(field, _)| field.clone())
        .collect();
    for entry in entries(operator, "secretExpressions") {
        for expression in entry_expressions(entry) {
            let used = expressions.secrets_used(expression);
            wanted.extend(used.map_err(|message| failed(expression, message))?);
        }
    }
    Ok(wanted)
}

/// Returns the Secrets and ConfigMaps to write. `responses` are those of the [`calls`]. Values
/// that Azure does not have are left out.
///
/// # Errors
///
/// If two values have the same destination, an expression fails, or a limit is exceeded.
pub fn objects(
    kind: &Kind,
    object: &Value,
    responses: &BTreeMap<usize, Value>,
    expressions: &dyn Expressions,
) -> Result<Vec<Exported>, ExportError> {
    limits::check(object)?;
    let operator = &object["spec"]["operatorSpec"];
    let exports = kind.exports();
    let mut secrets = BTreeMap::new();
    for field in wanted_secrets(object, expressions)? {
        if let Some(source) = exports.secrets.get(&field)
            && let Some(value) = value(&field, source, object, responses)?
        {
            secrets.insert(field, value);
        }
    }
    let mut collector = Collector::default();
    for (field, destination) in destinations(operator, "secrets") {
        if let Some(value) = secrets.get(field) {
            collector.add_field(Target::Secret, "secrets", field, destination, value)?;
        }
    }
    for (field, destination) in destinations(operator, "configMaps") {
        let source = exports.config_maps.get(field);
        let value = source.map(|source| value(field, source, object, responses));
        if let Some(value) = value.transpose()?.flatten() {
            collector.add_field(Target::ConfigMap, "configMaps", field, destination, &value)?;
        }
    }
    add_expressions(&mut collector, object, &secrets, expressions)?;
    Ok(collector.objects())
}

/// Adds the values of expressions. Those of ConfigMaps see no secrets.
fn add_expressions(
    collector: &mut Collector,
    object: &Value,
    secrets: &BTreeMap<String, Hidden>,
    expressions: &dyn Expressions,
) -> Result<(), ExportError> {
    let none = BTreeMap::new();
    let budget = RefCell::new(CostBudget::default());
    for (target, list, visible) in [
        (Target::Secret, "secretExpressions", secrets),
        (Target::ConfigMap, "configMapExpressions", &none),
    ] {
        let run = |expression: &str| {
            let budget = &mut budget.borrow_mut();
            let value = expressions.evaluate(expression, object, visible, budget);
            value.map_err(|message| failed(expression, message))
        };
        for entry in entries(&object["spec"]["operatorSpec"], list) {
            collector.add_expression(target, list, entry, &run)?;
        }
    }
    Ok(())
}

/// Returns the value of an export.
fn value(
    field: &str,
    source: &Source,
    object: &Value,
    responses: &BTreeMap<usize, Value>,
) -> Result<Option<Hidden>, ExportError> {
    let found = match source {
        Source::Call { call, path, decode } => {
            let found = responses.get(call).and_then(|it| path.select(it));
            let found = found.and_then(text);
            return match (found, decode) {
                (Some(text), Some(Encoding::Base64)) => {
                    let decoded = STANDARD.decode(text);
                    let decoded = decoded.map_err(|_| ExportError::Encoding {
                        field: field.to_owned(),
                    })?;
                    Ok(Some(Hidden::new(decoded)))
                }
                (found, _) => Ok(found.map(Hidden::new)),
            };
        }
        Source::Status { status } => status.select(&object["status"]).and_then(text),
        Source::Id {
            id: IdPart::Subscription,
        } => own_id(object).and_then(subscription).map(str::to_owned),
        Source::Nothing { .. } => None,
    };
    Ok(found.map(Hidden::new))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns the ARM id of an object.
fn own_id(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][RESOURCE_ID].as_str()
}

fn subscription(id: &str) -> Option<&str> {
    let mut parts = id.trim_start_matches('/').split('/');
    let first = parts.next()?;
    first
        .eq_ignore_ascii_case("subscriptions")
        .then(|| parts.next())
        .flatten()
}

fn failed(expression: &str, message: String) -> ExportError {
    ExportError::Expression {
        expression: expression.to_owned(),
        message,
    }
}

/// Returns the destinations by field.
fn destinations<'a>(
    operator: &'a Value,
    member: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    let fields = operator[member].as_object().into_iter().flatten();
    fields.filter(|(_, destination)| destination.is_object())
}

fn entries<'a>(operator: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    operator[member].as_array().into_iter().flatten()
}

/// Returns the expressions of an entry: that of the value, and those of annotations and labels.
fn entry_expressions(entry: &Value) -> impl Iterator<Item = &str> {
    let metadata = ["annotations", "labels"].into_iter();
    let metadata = metadata.flat_map(|it| entry[it].as_object().into_iter().flatten());
    let metadata = metadata.map(|(_, expression)| expression);
    let all = std::iter::once(&entry["value"]).chain(metadata);
    all.filter_map(Value::as_str)
}
