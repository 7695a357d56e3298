//! The namespaces and tenants that may use an identity.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};

/// Selects, by labels, the namespaces or the tenants that may use an identity. If it is missing,
/// none may; if it is empty, all may.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// A selector for the labels of the Namespace or the Tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

impl Allowed {
    /// Returns whether an object with these labels is allowed.
    ///
    /// # Errors
    ///
    /// If the selector is invalid, in which case none is allowed.
    pub fn allows(&self, labels: &BTreeMap<String, String>) -> Result<bool, InvalidSelector> {
        self.check()?;
        let mut wanted = self.labels();
        let mut rules = self.rules();
        Ok(wanted.all(|(key, value)| labels.get(key) == Some(value))
            && rules.all(|rule| holds(rule, labels)))
    }

    /// Returns whether the selector is empty and allows all.
    pub fn allows_all(&self) -> bool {
        self.labels().next().is_none() && self.rules().next().is_none()
    }

    /// Validates the selector. One invalid requirement makes the whole selector invalid, because
    /// the others alone would allow more.
    ///
    /// # Errors
    ///
    /// If the selector is invalid.
    pub fn check(&self) -> Result<(), InvalidSelector> {
        for (key, value) in self.labels() {
            check_key(key)?;
            check_value(value)?;
        }
        self.rules().try_for_each(check_rule)
    }

    fn labels(&self) -> impl Iterator<Item = (&String, &String)> {
        let selector = self.selector.iter();
        selector.flat_map(|selector| selector.match_labels.iter().flatten())
    }

    fn rules(&self) -> impl Iterator<Item = &LabelSelectorRequirement> {
        let selector = self.selector.iter();
        selector.flat_map(|selector| selector.match_expressions.iter().flatten())
    }
}

/// An invalid selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    /// An unknown operator.
    #[error("{0:?} is none of In, NotIn, Exists and DoesNotExist")]
    Operator(String),
    /// An operator that needs values has none.
    #[error("{0} needs values")]
    NoValues(String),
    /// An operator that takes no values has some.
    #[error("{0} takes no values")]
    Values(String),
    /// An invalid label key.
    #[error("{0:?} is no key of a label")]
    Key(String),
    /// An invalid label value.
    #[error("{0:?} is no value of a label")]
    Value(String),
}

fn holds(rule: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&rule.key);
    let named = |value| rule.values.iter().flatten().any(|one| one == value);
    match rule.operator.as_str() {
        "In" => value.is_some_and(named),
        "NotIn" => !value.is_some_and(named),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

fn check_rule(rule: &LabelSelectorRequirement) -> Result<(), InvalidSelector> {
    check_key(&rule.key)?;
    let operator = || rule.operator.clone();
    let mut values = rule.values.iter().flatten().peekable();
    let some = values.peek().is_some();
    match (rule.operator.as_str(), some) {
        ("In" | "NotIn", false) => return Err(InvalidSelector::NoValues(operator())),
        ("Exists" | "DoesNotExist", true) => return Err(InvalidSelector::Values(operator())),
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        _ => return Err(InvalidSelector::Operator(operator())),
    }
    values.try_for_each(|value| check_value(value))
}

/// Validates a label key: a name with an optional DNS prefix.
fn check_key(key: &str) -> Result<(), InvalidSelector> {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let label = |label: &str| is_word(label, |one| matches!(one, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let is_domain = |domain: &str| domain.len() <= 253 && domain.split('.').all(label);
    match domain.is_none_or(is_domain) && is_word(name, is_inner) {
        true => Ok(()),
        false => Err(InvalidSelector::Key(key.to_owned())),
    }
}

fn check_value(value: &str) -> Result<(), InvalidSelector> {
    match value.is_empty() || is_word(value, is_inner) {
        true => Ok(()),
        false => Err(InvalidSelector::Value(value.to_owned())),
    }
}

fn is_inner(one: u8) -> bool {
    one.is_ascii_alphanumeric() || matches!(one, b'-' | b'_' | b'.')
}

/// Returns whether a word has up to 63 such characters and begins and ends with a letter or a
/// digit.
fn is_word(text: &str, inner: impl Fn(u8) -> bool) -> bool {
    let ends = [text.bytes().next(), text.bytes().last()];
    let at_ends = |one: Option<u8>| one.is_some_and(|one| one.is_ascii_alphanumeric());
    text.len() <= 63 && text.bytes().all(inner) && ends.into_iter().all(at_ends)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn rule(operator: &str, values: Value) -> Value {
        json!({"selector": {"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}})
    }

    /// Returns which of three namespaces are allowed: without labels, of tier gold, of tier tin.
    fn who(allowed: &Allowed) -> Result<Vec<&'static str>, InvalidSelector> {
        let all = [
            ("foo", labels(&[("kubernetes.io/metadata.name", "foo")])),
            (
                "gold",
                labels(&[("kubernetes.io/metadata.name", "gold"), ("tier", "gold")]),
            ),
            (
                "tin",
                labels(&[
                    ("kubernetes.io/metadata.name", "tin"),
                    ("tier", "tin"),
                    ("x", ""),
                ]),
            ),
        ];
        let mut allowed_ones = Vec::new();
        for (name, labels) in &all {
            if allowed.allows(labels)? {
                allowed_ones.push(*name);
            }
        }
        Ok(allowed_ones)
    }

    #[test]
    fn a3_selector_allows_the_namespaces_it_matches() {
        let all: &[&str] = &["foo", "gold", "tin"];
        for (value, may) in [
            (json!({}), all),
            (json!({"selector": {}}), all),
            (json!({"selector": {"matchLabels": {}}}), all),
            (
                json!({"selector": {"matchLabels": {}, "matchExpressions": []}}),
                all,
            ),
            (
                json!({"selector": {"matchLabels": {"tier": "gold"}}}),
                &["gold"],
            ),
            (
                json!({"selector": {"matchLabels": {"kubernetes.io/metadata.name": "foo"}}}),
                &["foo"],
            ),
            (json!({"selector": {"matchLabels": {"x": ""}}}), &["tin"]),
            (
                json!({"selector": {"matchLabels": {"tier": "gold", "x": ""}}}),
                &[],
            ),
            (rule("In", json!(["gold", "silver"])), &["gold"]),
            (rule("NotIn", json!(["gold"])), &["foo", "tin"]),
            (rule("Exists", json!(null)), &["gold", "tin"]),
            (rule("Exists", json!([])), &["gold", "tin"]),
            (rule("DoesNotExist", json!([])), &["foo"]),
            (
                json!({"selector": {
                    "matchLabels": {"tier": "tin"},
                    "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}],
                }}),
                &[],
            ),
        ] {
            let allowed: Allowed = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(who(&allowed), Ok(may.to_vec()), "{value}");
            assert_eq!(allowed.allows_all(), may == all, "{value}");
        }
    }

    #[test]
    fn a3_invalid_selector_allows_no_namespace() {
        let operator = |text: &str| InvalidSelector::Operator(text.to_owned());
        for (value, why) in [
            (rule("Equals", json!(["gold"])), operator("Equals")),
            (rule("in", json!(["gold"])), operator("in")),
            (rule("", json!([])), operator("")),
            (
                rule("In", json!([])),
                InvalidSelector::NoValues("In".to_owned()),
            ),
            (
                rule("In", json!(null)),
                InvalidSelector::NoValues("In".to_owned()),
            ),
            (
                rule("NotIn", json!([])),
                InvalidSelector::NoValues("NotIn".to_owned()),
            ),
            (
                rule("Exists", json!(["gold"])),
                InvalidSelector::Values("Exists".to_owned()),
            ),
            (
                rule("DoesNotExist", json!(["x"])),
                InvalidSelector::Values("DoesNotExist".to_owned()),
            ),
            (
                rule("NotIn", json!(["not a value"])),
                InvalidSelector::Value("not a value".to_owned()),
            ),
            (
                json!({"selector": {"matchExpressions": [{"key": "", "operator": "DoesNotExist"}]}}),
                InvalidSelector::Key(String::new()),
            ),
            (
                json!({"selector": {"matchExpressions": [{"key": "A/b", "operator": "DoesNotExist"}]}}),
                InvalidSelector::Key("A/b".to_owned()),
            ),
            (
                json!({"selector": {"matchLabels": {"a/b/c": "d"}}}),
                InvalidSelector::Key("a/b/c".to_owned()),
            ),
        ] {
            let allowed: Allowed = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(who(&allowed), Err(why), "{value}");
            assert!(!allowed.allows_all(), "{value}");
        }
    }

    #[test]
    fn u2_empty_and_missing_selectors_survive_round_trips() {
        #[derive(Serialize, Deserialize)]
        struct Spec {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            allowed: Option<Allowed>,
        }
        for value in [
            json!({}),
            json!({"allowed": {}}),
            json!({"allowed": {"selector": {}}}),
            json!({"allowed": {"selector": {"matchLabels": {}}}}),
            json!({"allowed": {"selector": {"matchLabels": {"a": "b"}}}}),
        ] {
            let spec: Spec = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(&spec).unwrap(), value);
            let there = value.get("allowed").is_some();
            assert_eq!(spec.allowed.is_some(), there, "{value}");
        }
        let null: Spec = serde_json::from_value(json!({"allowed": null})).unwrap();
        assert_eq!(null.allowed, None);
    }
}
