//! Paths to values in JSON: `keys[keyName=key1].value`, `kubeconfigs[0].value`.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// A path to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(Box<str>),
    Element(usize),
    /// The first element with this value of a member; an empty value is also an absent one.
    ElementWith(Box<str>, Box<str>),
}

impl Path {
    /// Parses a path. Members are separated by dots; brackets have the number of an element, or
    /// `MEMBER=VALUE`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(bracket) = rest.strip_prefix('[') {
                let (inside, after) = bracket.split_once(']')?;
                steps.push(Step::bracket(inside)?);
                rest = after.strip_prefix('.').unwrap_or(after);
                continue;
            }
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (member, after) = rest.split_at(end);
            if member.is_empty() {
                return None;
            }
            steps.push(Step::Member(member.into()));
            rest = after.strip_prefix('.').unwrap_or(after);
        }
        Some(Self(steps))
    }

    /// Returns the value at the path, or nothing if a step leads nowhere.
    pub fn select<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |value, step| step.go(value))
    }

    /// The names of the members, if the path has nothing else.
    pub fn members(&self) -> Option<Vec<&str>> {
        let steps = self.0.iter();
        let names = steps.map(|step| match step {
            Step::Member(name) => Some(&**name),
            _ => None,
        });
        names.collect()
    }
}

impl Step {
    fn bracket(text: &str) -> Option<Self> {
        match text.split_once('=') {
            Some((member, value)) => Some(Self::ElementWith(member.into(), value.into())),
            None => text.parse().ok().map(Self::Element),
        }
    }

    fn go<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Member(name) => value.get(&**name),
            Self::Element(index) => value.get(index),
            Self::ElementWith(member, wanted) => {
                let of = |element: &Value| {
                    let value = element.get(&**member).and_then(Value::as_str);
                    value.unwrap_or_default() == &**wanted
                };
                value.as_array()?.iter().find(|element| of(element))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom(format!("{text:?} is not a path")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_through_members_and_elements() {
        let value = json!({
            "keys": [{"keyName": "key1", "value": "a"}, {"keyName": "key2", "value": "b"}],
            "value": [{"name": "named", "key": "c"}, {"name": null, "key": "d"}],
            "nested": [[{"x": 1}]],
        });
        let at = |path: &str| Path::parse(path).unwrap().select(&value).cloned();
        assert_eq!(at("keys[keyName=key2].value"), Some(json!("b")));
        assert_eq!(at("keys[0].value"), Some(json!("a")));
        assert_eq!(at("value[name=].key"), Some(json!("d")));
        assert_eq!(at("nested[0][0].x"), Some(json!(1)));
        assert_eq!(at("keys[keyName=key3].value"), None);
        assert_eq!(at("missing.value"), None);
        assert_eq!(at(""), Some(value.clone()));
    }

    #[test]
    fn texts_that_are_not_paths_are_refused() {
        for text in [".a", "a..b", "a[", "a[x]"] {
            assert_eq!(Path::parse(text), None, "{text}");
        }
    }
}
