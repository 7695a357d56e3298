//! Quotas of tenants on the command line and in tables.

use insula_apiserver::registry::tenant_quota::NAMES;
use serde_json::{Map, Value, json};

use super::amounts::{self, Amount, AmountName, InvalidAmounts};

/// The fields that have no limit, also no default.
const UNLIMITED: &str = "unlimited";

/// Changes to the quota of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota(Vec<(&'static str, Amount)>);

impl Quota {
    /// Parses `objects=1000,bytes=100Mi`.
    pub fn parse(text: &str) -> Result<Self, InvalidAmounts> {
        let name = |field| AmountName {
            field,
            is_bytes: field == "bytes",
        };
        amounts::parse(text, &NAMES.map(name)).map(Self)
    }

    /// Applies the changes to a quota in the form of a tenant's spec.
    pub fn apply_to(&self, quota: &Value) -> Value {
        let mut quota = quota.as_object().cloned().unwrap_or_default();
        let unlimited = quota.remove(UNLIMITED);
        let mut unlimited: Vec<Value> = match unlimited {
            Some(Value::Array(names)) => names,
            _ => Vec::new(),
        };
        for (name, amount) in &self.0 {
            quota.remove(*name);
            unlimited.retain(|unlimited| unlimited != name);
            match amount {
                Amount::Limit(limit) => drop(quota.insert((*name).to_owned(), limit.clone())),
                Amount::Unlimited => unlimited.push(json!(name)),
                Amount::Default => {}
            }
        }
        if !unlimited.is_empty() {
            quota.insert(UNLIMITED.to_owned(), unlimited.into());
        }
        Value::Object(quota)
    }

    /// Returns the quota as in the tenant's spec.
    pub fn value(&self) -> Value {
        self.apply_to(&Value::Object(Map::new()))
    }
}

/// Formats usage and quota: `objects=8/1000`.
pub fn shown(tenant: &Value) -> String {
    let (status, usage) = (&tenant["status"], &tenant["status"]["usage"]);
    // The server may not have recorded yet what is in effect.
    let quota = match status["quota"].is_object() {
        true => &status["quota"],
        false => &tenant["spec"]["quota"],
    };
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
    fn changes_keep_the_other_fields() {
        let quota = json!({"objects": 5, "namespaces": 3, "unlimited": ["bytes"]});
        for (changes, wanted) in [
            (
                "objects=7",
                json!({"objects": 7, "namespaces": 3, "unlimited": ["bytes"]}),
            ),
            (
                "bytes=1Gi",
                json!({"objects": 5, "namespaces": 3, "bytes": "1Gi"}),
            ),
            (
                "namespaces=none",
                json!({"objects": 5, "unlimited": ["bytes", "namespaces"]}),
            ),
            ("bytes=default,objects=default", json!({"namespaces": 3})),
        ] {
            let changed = Quota::parse(changes).unwrap().apply_to(&quota);
            assert_eq!(changed, wanted, "{changes}");
        }
    }

    #[test]
    fn usage_is_shown_before_the_quota_in_effect() {
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
        let by_default = json!({
            "spec": {"quota": {"objects": 9}},
            "status": {
                "usage": {"objects": 8, "bytes": "3Ki"},
                "quota": {"objects": 9, "bytes": "256Mi"},
            },
        });
        assert_eq!(shown(&by_default), "objects=8/9,bytes=3Ki/256Mi");
    }
}
