//! Output of tenants.

use std::time::SystemTime;

use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{conditions, quota};
use crate::duration;
use crate::failure::Failure;
use crate::output;

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One line per object
    Table,
    /// One longer line per object
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names only
    Name,
}

/// Formats one tenant.
pub fn one(tenant: &Value, format: Format) -> Result<String, Failure> {
    match format {
        Format::Json | Format::Yaml => document(tenant, format),
        _ => rows(std::slice::from_ref(tenant), format),
    }
}

/// Formats a list of tenants.
pub fn many(tenants: Vec<Value>, format: Format) -> Result<String, Failure> {
    match format {
        Format::Json | Format::Yaml => {
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": tenants });
            document(&list, format)
        }
        _ => rows(&tenants, format),
    }
}

/// Formats an object as JSON or YAML.
pub fn document(object: &Value, format: Format) -> Result<String, Failure> {
    if format == Format::Yaml {
        return output::yaml(object);
    }
    let text = serde_json::to_string_pretty(object);
    let text = text.map_err(|error| Failure::new("cannot write JSON", error))?;
    Ok(text + "\n")
}

fn rows(tenants: &[Value], format: Format) -> Result<String, Failure> {
    if format == Format::Name {
        let name = |tenant: &Value| format!("tenant/{}\n", name(tenant));
        return Ok(tenants.iter().map(name).collect());
    }
    let now = Timestamp::try_from(SystemTime::now());
    let now = now.map_err(|error| Failure::new("cannot read the clock", error))?;
    let header = ["NAME", "STATUS", "AGE", "QUOTA", "CONDITIONS"].map(str::to_owned);
    let rows = tenants.iter().map(|tenant| row(tenant, now));
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let columns = if format == Format::Wide { 5 } else { 3 };
    let rows: Vec<_> = rows.iter().map(|row| &row[..columns]).collect();
    Ok(output::table(&rows))
}

type Row = [String; 5];

fn row(tenant: &Value, now: Timestamp) -> Row {
    let phase = tenant["status"]["phase"].as_str().unwrap_or("<unknown>");
    let conditions = conditions(tenant).into_iter();
    let conditions: Vec<_> = conditions
        .map(|condition| format!("{}={}", condition.kind, condition.status))
        .collect();
    let conditions = match conditions[..] {
        [] => "<none>".to_owned(),
        _ => conditions.join(","),
    };
    [
        name(tenant).to_owned(),
        phase.to_owned(),
        age(tenant, now),
        quota::shown(tenant),
        conditions,
    ]
}

fn name(tenant: &Value) -> &str {
    tenant["metadata"]["name"].as_str().unwrap_or("<unknown>")
}

fn age(tenant: &Value, now: Timestamp) -> String {
    let created = tenant["metadata"]["creationTimestamp"].as_str();
    let created = created.and_then(|created| created.parse::<Timestamp>().ok());
    match created {
        None => "<unknown>".to_owned(),
        // A creation time in the future counts as now.
        Some(created) => {
            duration::short(now.duration_since(created).try_into().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants() -> Vec<Value> {
        let ago = |seconds: i64| {
            let then = Timestamp::now().as_second() - seconds;
            Timestamp::from_second(then).unwrap().to_string()
        };
        vec![
            json!({
                "apiVersion": "v1",
                "kind": "Tenant",
                "metadata": { "name": "acme", "creationTimestamp": ago(300) },
                "spec": { "quota": { "objects": 9 } },
                "status": { "phase": "Active", "usage": { "objects": 8 } },
            }),
            json!({
                "apiVersion": "v1",
                "kind": "Tenant",
                "metadata": { "name": "a-longer-name", "creationTimestamp": ago(-60) },
                "status": {
                    "phase": "Terminating",
                    "conditions": [
                        { "type": "ContentRemaining", "status": "True" },
                        { "type": "Ready", "status": "False" },
                    ],
                },
            }),
        ]
    }

    #[test]
    fn tenants_are_shown_as_in_kubectl() {
        let shown = |format| many(tenants(), format).unwrap();
        assert_eq!(
            shown(Format::Table),
            "NAME            STATUS        AGE\n\
             acme            Active        5m\n\
             a-longer-name   Terminating   0s\n"
        );
        assert_eq!(
            shown(Format::Wide),
            "NAME            STATUS        AGE   QUOTA         CONDITIONS\n\
             acme            Active        5m    objects=8/9   <none>\n\
             a-longer-name   Terminating   0s    <none>        ContentRemaining=True,Ready=False\n"
        );
        assert_eq!(shown(Format::Name), "tenant/acme\ntenant/a-longer-name\n");
        let json: Value = serde_json::from_str(&shown(Format::Json)).unwrap();
        assert_eq!(json["kind"], "List");
        assert_eq!(json["items"], Value::Array(tenants()));
        let yaml: Value = serde_saphyr::from_str(&shown(Format::Yaml)).unwrap();
        assert_eq!(yaml, json);
    }

    #[test]
    fn yaml_and_json_are_equivalent_for_all_strings() {
        let texts = [
            "true",
            "no",
            "null",
            "~",
            "1",
            "0x1f",
            "1e3",
            "",
            " a",
            "a: b",
            "- a",
            "# a",
            "a\nb\n",
            "2024-01-01",
            "{}",
            "\"",
            "'",
            "%",
            "&a",
            "*a",
            "!a",
            "\t",
            "\n",
            "a\n\n",
            " a\nb",
            "\na",
            "a\r\nb",
            "a\n b\n",
        ];
        let long = "word ".repeat(50);
        let object =
            json!({ "texts": texts, "long": long, "numbers": [1, -2, 1.5], "nothing": null });
        let yaml = one(&object, Format::Yaml).unwrap();
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read, object, "{yaml}");
    }
}
