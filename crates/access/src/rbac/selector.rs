//! Label selectors of aggregated roles.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::rule::list;

/// The labels of a role.
pub type Labels = BTreeMap<String, String>;

/// A label selector. An empty one matches every role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    match_labels: Option<Labels>,
    #[serde(deserialize_with = "list")]
    match_expressions: Vec<Expression>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Expression {
    key: String,
    operator: String,
    #[serde(default, deserialize_with = "list")]
    values: Vec<String>,
}

impl Selector {
    /// Reports whether it matches these labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        let mut wanted = self.match_labels.iter().flatten();
        wanted.all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|one| one.holds(labels))
    }

    /// The number of comparisons that a match takes.
    pub fn size(&self) -> usize {
        let labels = self.match_labels.as_ref().map_or(0, Labels::len);
        let expressions = self
            .match_expressions
            .iter()
            .map(|one| 1 + one.values.len());
        1 + labels + expressions.sum::<usize>()
    }

    /// Estimated memory use in bytes.
    pub fn weight(&self) -> usize {
        let labels = self.match_labels.iter().flatten();
        let labels = labels.map(|(key, value)| key.len() + value.len() + 48);
        let expressions = self.match_expressions.iter().map(|one| {
            let values = one.values.iter().map(|value| value.len() + 24);
            one.key.len() + values.sum::<usize>() + size_of::<Expression>()
        });
        size_of::<Self>() + labels.sum::<usize>() + expressions.sum::<usize>()
    }
}

impl Expression {
    /// An unknown operator matches nothing, so that it cannot grant permissions.
    fn holds(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_matches_only_if_all_requirements_do() {
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        let nothing = json!({});
        let (one, two) = (json!({"a": "1"}), json!({"a": "2", "b": "x"}));
        for (selector, selected) in [
            (json!({}), [true, true, true]),
            (
                json!({"matchLabels": null, "matchExpressions": null}),
                [true, true, true],
            ),
            (json!({"matchLabels": {"a": "1"}}), [false, true, false]),
            (
                json!({"matchLabels": {"a": "2", "b": "x"}}),
                [false, false, true],
            ),
            (
                json!({"matchLabels": {"a": "1", "b": "x"}}),
                [false, false, false],
            ),
            (expression("In", &["1", "3"]), [false, true, false]),
            (expression("In", &[]), [false, false, false]),
            (expression("NotIn", &["1"]), [true, false, true]),
            (expression("Exists", &[]), [false, true, true]),
            (expression("DoesNotExist", &[]), [true, false, false]),
            (expression("exists", &[]), [false, false, false]),
            (
                json!({
                    "matchLabels": {"b": "x"},
                    "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["2"]}],
                }),
                [false, false, false],
            ),
        ] {
            let parsed: Selector = serde_json::from_value(selector.clone()).unwrap();
            let found = [&nothing, &one, &two].map(|labels| {
                let labels: Labels = serde_json::from_value(labels.clone()).unwrap();
                parsed.selects(&labels)
            });
            assert_eq!(found, selected, "{selector}");
        }
    }
}
