//! Custom objects as rows of a table, as kubectl prints them.

use insula_kinds::go::{self, Printed};
use insula_kinds::time::{self, Precision};
use insula_kinds::{Object, Value};

use crate::path::Path;

/// A column, and where its cells come from.
#[derive(Clone, Debug)]
pub struct Column {
    /// The column as the table defines it.
    pub definition: insula_kinds::Column,
    /// Where its value is.
    pub path: Path,
}

impl Column {
    /// The column that a definition asks for; nothing if its path cannot be read.
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

/// The columns that stand beside the name, as a version's `additionalPrinterColumns` asks
/// for them; the age if there are none. A path that cannot be read ends the table.
pub fn columns(asked: &Value) -> Vec<Column> {
    match asked.as_array().map(Vec::as_slice) {
        None | Some([]) => Column::age().into_iter().collect(),
        Some(columns) => columns.iter().map_while(Column::parse).collect(),
    }
}

/// The columns that stand beside the name when scales are printed.
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

/// All columns of a table, the name first.
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

/// The cells of the object's row, the name first.
///
/// `now_seconds` is the time since 1970 from which ages count.
pub fn cells(columns: &[Column], object: &Object, now_seconds: i64) -> Vec<Value> {
    let name = object.get("metadata").and_then(|of| of.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or_default();
    let others = columns
        .iter()
        .map(|column| column.cell(object, now_seconds));
    std::iter::once(Value::from(name)).chain(others).collect()
}

/// Any value as text: what is no text in JSON is shown as JSON, or as Go shows it.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Array(_) | Value::Object(_) => go::json(value),
        scalar => Printed(scalar).to_string(),
    }
}

/// The value, if it has the type of the column.
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

/// A double as Go makes it an integer: what is too large is the smallest one.
fn truncated(double: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&double) {
        double as i64
    } else {
        i64::MIN
    }
}

/// A double, which is written without a fraction if it has none.
fn number(double: f64) -> Value {
    /// Below this every whole double is also an integer.
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
        Ok(then) if then.is_never() => "<unknown>".to_owned(),
        Ok(then) => time::human_duration(now.saturating_sub(then.seconds)),
    }
}
