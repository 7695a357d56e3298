//! Quotas of tenants on the command line and in tables.

use serde_json::{Map, Value, json};

/// The limits; all but bytes are plain numbers.
const NAMES: [&str; 4] = [
    "objects",
    "bytes",
    "namespaces",
    "customResourceDefinitions",
];

/// The quota of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota(Map<String, Value>);

/// The errors of a quota.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuota {
    /// A part is not NAME=AMOUNT.
    #[error("{0:?} is not NAME=AMOUNT")]
    Form(String),
    /// The limit is unknown.
    #[error("{0:?} is not a limit; the limits are {known}", known = NAMES.join(", "))]
    Name(String),
    /// A limit occurs twice.
    #[error("duplicate limit {0}")]
    Duplicate(String),
    /// The amount is not a number.
    #[error("{0:?} is not a number of {1}")]
    Amount(String, &'static str),
}

impl Quota {
    /// Parses `objects=1000,bytes=100Mi`.
    pub fn parse(text: &str) -> Result<Self, InvalidQuota> {
        let mut quota = Map::new();
        for part in text.split(',') {
            let form = || InvalidQuota::Form(part.to_owned());
            let (name, amount) = part.split_once('=').ok_or_else(form)?;
            let known = NAMES.into_iter().find(|known| *known == name);
            let name = known.ok_or_else(|| InvalidQuota::Name(name.to_owned()))?;
            let value = match name {
                // A quantity, which the server parses.
                "bytes" if !amount.is_empty() => json!(amount),
                _ => {
                    let number = amount.parse::<u32>();
                    let wrong = |_| InvalidQuota::Amount(amount.to_owned(), name);
                    json!(number.map_err(wrong)?)
                }
            };
            if quota.insert(name.to_owned(), value).is_some() {
                return Err(InvalidQuota::Duplicate(name.to_owned()));
            }
        }
        Ok(Self(quota))
    }

    /// Returns the quota as in the tenant's spec.
    pub fn value(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

/// Formats usage and quota: `objects=8/1000`.
pub fn shown(tenant: &Value) -> String {
    let (quota, usage) = (&tenant["spec"]["quota"], &tenant["status"]["usage"]);
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "?".to_owned(),
        other => other.to_string(),
    };
    let limited = NAMES.into_iter().filter(|name| !quota[*name].is_null());
    let each = limited.map(|name| format!("{name}={}/{}", text(&usage[name]), text(&quota[name])));
    let each: Vec<_> = each.collect();
    match each[..] {
        [] => "<none>".to_owned(),
        _ => each.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_parses_names_and_amounts() {
        let quota = Quota::parse("objects=1000,bytes=100Mi,customResourceDefinitions=0").unwrap();
        let wanted = json!({"objects": 1000, "bytes": "100Mi", "customResourceDefinitions": 0});
        assert_eq!(quota.value(), wanted);
        for (text, why) in [
            ("", "\"\" is not NAME=AMOUNT"),
            ("objects", "\"objects\" is not NAME=AMOUNT"),
            ("objects=1,", "\"\" is not NAME=AMOUNT"),
            ("objects=-1", "\"-1\" is not a number of objects"),
            ("bytes=", "\"\" is not a number of bytes"),
            ("objects=1,objects=2", "duplicate limit objects"),
            (
                "pods=1",
                "\"pods\" is not a limit; the limits are objects, bytes, namespaces, \
                 customResourceDefinitions",
            ),
        ] {
            assert_eq!(Quota::parse(text).unwrap_err().to_string(), why, "{text}");
        }
    }

    #[test]
    fn usage_is_shown_before_the_quota() {
        let tenant = json!({
            "spec": {"quota": {"objects": 1000, "bytes": "1Mi"}},
            "status": {"usage": {"objects": 8, "bytes": "3Ki", "namespaces": 3}},
        });
        assert_eq!(shown(&tenant), "objects=8/1000,bytes=3Ki/1Mi");
        assert_eq!(
            shown(&json!({"spec": {"quota": {"objects": 1}}})),
            "objects=?/1"
        );
        assert_eq!(shown(&json!({"spec": {}})), "<none>");
    }
}
