//! Table rows of custom objects, as kubectl prints them.

use insula_kinds::go::{self, Printed};
use insula_kinds::print::Part;
use insula_kinds::time::{self, Precision};
use insula_kinds::{Object, Value};

use crate::path::Path;

/// A printer column with the path of its cells.
#[derive(Clone, Debug)]
pub struct Column {
    /// The column definition of the table.
    pub definition: insula_kinds::Column,
    /// The path of the value.
    pub path: Path,
}

impl Column {
    /// Parses a printer column; `None` if its path is invalid.
    fn parse(column: &Value) -> Option<Self> {
        let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = Path::parse(text("jsonPath")).ok()?;
        let description = match text("description") {
            "" => format!(
                "Custom resource definition column (in JSONPath format): {}",
                path.text()
            ),
            given => given.to_owned(),
        };
        let priority = column.get("priority").and_then(Value::as_i64);
        Some(Self {
            definition: insula_kinds::Column {
                name: text("name").to_owned(),
                kind: text("type").to_owned(),
                format: text("format").to_owned(),
                priority: priority.and_then(|it| it.try_into().ok()).unwrap_or(0),
                description,
            },
            path,
        })
    }

    fn age() -> Option<Self> {
        let age = serde_json::json!({
            "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        });
        let mut age = Self::parse(&age)?;
        age.definition.description = String::new();
        Some(age)
    }

    fn cell(&self, object: &Object, now: i64) -> Value {
        match (self.path.first(object), self.definition.kind.as_str()) {
            (None, _) => Value::Null,
            (Some(value), "string") => Value::from(printed(&value)),
            (Some(value), kind) => typed(&value, kind, now).unwrap_or(Value::Null),
        }
    }
}

/// The columns after the name, from a version's `additionalPrinterColumns`. The default is the
/// age. An invalid path drops its column and all later ones.
pub fn columns(asked: &Value) -> Vec<Column> {
    match asked.as_array().map(Vec::as_slice) {
        None | Some([]) => Column::age().into_iter().collect(),
        Some(columns) => columns.iter().map_while(Column::parse).collect(),
    }
}

/// The columns after the name when scales are printed.
pub fn scale_columns() -> Vec<Column> {
    let number = |name: &str, description: &str, path: &str| {
        Column::parse(&serde_json::json!({
            "name": name, "type": "integer", "description": description, "jsonPath": path,
        }))
    };
    let desired = number("Desired", "Number of desired replicas", ".spec.replicas");
    let available = number("Available", "Number of actual replicas", ".status.replicas");
    [desired, available, Column::age()]
        .into_iter()
        .flatten()
        .collect()
}

/// All column definitions of a table, the name first.
pub fn definitions(columns: &[Column]) -> Vec<insula_kinds::Column> {
    let name = insula_kinds::Column {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        priority: 0,
        description: String::new(),
    };
    let others = columns.iter().map(|column| column.definition.clone());
    std::iter::once(name).chain(others).collect()
}

/// The cells of an object's row, the name first.
///
/// `now_seconds` is the current time in seconds since 1970, for computing ages.
pub fn cells(columns: &[Column], object: &Object, now_seconds: i64) -> Vec<Value> {
    let name = object.get("metadata").and_then(|of| of.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or_default();
    let others = columns
        .iter()
        .map(|column| column.cell(object, now_seconds));
    std::iter::once(Value::from(name)).chain(others).collect()
}

/// Returns how much of a member of an object its cells show.
pub fn row_part(columns: &[Column], member: &str) -> Part {
    let mut part = match member {
        "metadata" => Part::Unmanaged,
        _ => Part::None,
    };
    for column in columns {
        match column.path.beginning() {
            None => return Part::Whole,
            Some((first, second)) if first == member => {
                let is_unmanaged = second.is_some_and(|second| second != "managedFields");
                if member != "metadata" || !is_unmanaged {
                    part = Part::Whole;
                }
            }
            Some(_) => {}
        }
    }
    part
}

/// Formats any value as text: objects and lists as JSON, scalars as Go prints them.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Array(_) | Value::Object(_) => go::json(value),
        scalar => Printed(scalar).to_string(),
    }
}

/// Converts a value to the column's type, if possible.
fn typed(value: &Value, kind: &str, now: i64) -> Option<Value> {
    match kind {
        "integer" => match value.as_i64() {
            Some(whole) => Some(whole.into()),
            None => value.as_f64().map(|double| truncated(double).into()),
        },
        "number" => value.as_f64().map(number),
        "boolean" => value.as_bool().map(Value::from),
        "date" => value.as_str().map(|text| age(text, now).into()),
        _ => None,
    }
}

/// Converts a double to an integer as Go does: out-of-range values become the minimum.
fn truncated(double: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&double) {
        double as i64
    } else {
        i64::MIN
    }
}

/// Formats a double, without a fraction if it is integral.
fn number(double: f64) -> Value {
    /// Below this, every integral double is exactly an integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if double.fract() == 0.0 && double.abs() < EXACT {
        Value::from(double as i64)
    } else {
        Value::from(double)
    }
}

fn age(text: &str, now: i64) -> String {
    if matches!(text, "" | "null") {
        return "<unknown>".to_owned();
    }
    match time::parse(text, Precision::Seconds) {
        Err(_) => "<invalid>".to_owned(),
        Ok(then) if then.is_zero() => "<unknown>".to_owned(),
        Ok(then) => time::human_duration(now.saturating_sub(then.seconds)),
    }
}
