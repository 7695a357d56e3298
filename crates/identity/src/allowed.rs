//! Which namespaces may use an identity.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};

/// Which namespaces may use an identity. Where it is missing, none may; where it is empty, all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AllowedNamespaces {
    /// By the labels of the Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

impl AllowedNamespaces {
    /// Whether a namespace with these labels may.
    ///
    /// # Errors
    ///
    /// If what it says is no selector: then nobody may.
    pub fn allows(&self, labels: &BTreeMap<String, String>) -> Result<bool, NoSelector> {
        self.check()?;
        let mut wanted = self.labels();
        let mut rules = self.rules();
        Ok(wanted.all(|(key, value)| labels.get(key) == Some(value))
            && rules.all(|rule| holds(rule, labels)))
    }

    /// Whether it asks for nothing, and so allows all.
    pub fn allows_all(&self) -> bool {
        self.labels().next().is_none() && self.rules().next().is_none()
    }

    /// Whether it is a selector at all. One of its parts that cannot be meant makes all of it
    /// none: what is left would allow more.
    ///
    /// # Errors
    ///
    /// If it is none, and why.
    pub fn check(&self) -> Result<(), NoSelector> {
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

/// Why something is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSelector {
    /// Nobody knows this operator.
    #[error("{0:?} is none of In, NotIn, Exists and DoesNotExist")]
    Operator(String),
    /// The operator needs values.
    #[error("{0} needs values")]
    NoValues(String),
    /// The operator takes no values.
    #[error("{0} takes no values")]
    Values(String),
    /// No label has this key.
    #[error("{0:?} is no key of a label")]
    Key(String),
    /// No label has this value.
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

fn check_rule(rule: &LabelSelectorRequirement) -> Result<(), NoSelector> {
    check_key(&rule.key)?;
    let operator = || rule.operator.clone();
    let mut values = rule.values.iter().flatten().peekable();
    let some = values.peek().is_some();
    match (rule.operator.as_str(), some) {
        ("In" | "NotIn", false) => return Err(NoSelector::NoValues(operator())),
        ("Exists" | "DoesNotExist", true) => return Err(NoSelector::Values(operator())),
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        _ => return Err(NoSelector::Operator(operator())),
    }
    values.try_for_each(|value| check_value(value))
}

/// A name, with a domain before it or without.
fn check_key(key: &str) -> Result<(), NoSelector> {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let label = |label: &str| is_word(label, |one| matches!(one, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let is_domain = |domain: &str| domain.len() <= 253 && domain.split('.').all(label);
    match domain.is_none_or(is_domain) && is_word(name, is_inner) {
        true => Ok(()),
        false => Err(NoSelector::Key(key.to_owned())),
    }
}

fn check_value(value: &str) -> Result<(), NoSelector> {
    match value.is_empty() || is_word(value, is_inner) {
        true => Ok(()),
        false => Err(NoSelector::Value(value.to_owned())),
    }
}

fn is_inner(one: u8) -> bool {
    one.is_ascii_alphanumeric() || matches!(one, b'-' | b'_' | b'.')
}

/// Up to 63 of these, the first and the last of them letters or digits.
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

    /// Which of three namespaces may: without labels of its own, of tier gold, of tier tin.
    fn who(allowed: &AllowedNamespaces) -> Result<Vec<&'static str>, NoSelector> {
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
    fn a3_every_form_of_a_selector_allows_whom_it_says() {
        let all: &[&str] = &["foo", "gold", "tin"];
        for (said, may) in [
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
            let allowed: AllowedNamespaces = serde_json::from_value(said.clone()).unwrap();
            assert_eq!(who(&allowed), Ok(may.to_vec()), "{said}");
            assert_eq!(allowed.allows_all(), may == all, "{said}");
        }
    }

    #[test]
    fn a3_what_is_no_selector_allows_nobody() {
        let operator = |text: &str| NoSelector::Operator(text.to_owned());
        for (said, why) in [
            (rule("Equals", json!(["gold"])), operator("Equals")),
            (rule("in", json!(["gold"])), operator("in")),
            (rule("", json!([])), operator("")),
            (rule("In", json!([])), NoSelector::NoValues("In".to_owned())),
            (
                rule("In", json!(null)),
                NoSelector::NoValues("In".to_owned()),
            ),
            (
                rule("NotIn", json!([])),
                NoSelector::NoValues("NotIn".to_owned()),
            ),
            (
                rule("Exists", json!(["gold"])),
                NoSelector::Values("Exists".to_owned()),
            ),
            (
                rule("DoesNotExist", json!(["x"])),
                NoSelector::Values("DoesNotExist".to_owned()),
            ),
            (
                rule("NotIn", json!(["not a value"])),
                NoSelector::Value("not a value".to_owned()),
            ),
            (
                json!({"selector": {"matchExpressions": [{"key": "", "operator": "DoesNotExist"}]}}),
                NoSelector::Key(String::new()),
            ),
            (
                json!({"selector": {"matchExpressions": [{"key": "A/b", "operator": "DoesNotExist"}]}}),
                NoSelector::Key("A/b".to_owned()),
            ),
            (
                json!({"selector": {"matchLabels": {"a/b/c": "d"}}}),
                NoSelector::Key("a/b/c".to_owned()),
            ),
        ] {
            let allowed: AllowedNamespaces = serde_json::from_value(said.clone()).unwrap();
            assert_eq!(who(&allowed), Err(why), "{said}");
            assert!(!allowed.allows_all(), "{said}");
        }
    }

    #[test]
    fn u2_what_is_empty_is_not_what_is_missing_however_often_it_is_written() {
        #[derive(Serialize, Deserialize)]
        struct Spec {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            allowed: Option<AllowedNamespaces>,
        }
        for said in [
            json!({}),
            json!({"allowed": {}}),
            json!({"allowed": {"selector": {}}}),
            json!({"allowed": {"selector": {"matchLabels": {}}}}),
            json!({"allowed": {"selector": {"matchLabels": {"a": "b"}}}}),
        ] {
            let spec: Spec = serde_json::from_value(said.clone()).unwrap();
            assert_eq!(serde_json::to_value(&spec).unwrap(), said);
            let there = said.get("allowed").is_some();
            assert_eq!(spec.allowed.is_some(), there, "{said}");
        }
        let null: Spec = serde_json::from_value(json!({"allowed": null})).unwrap();
        assert_eq!(null.allowed, None);
    }
}
