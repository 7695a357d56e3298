//! Elements of paths, and their text in messages.

use std::fmt;

use insula_gotext::quote::Quoted;
use insula_kinds::Value;
use insula_kinds::go::Printed;
use smol_str::SmolStr;

/// An element of a path.
#[derive(Clone, Debug)]
pub enum Element {
    /// A member of an object: `f:name`. Nearly all names are short enough to need no allocation.
    Field(SmolStr),
    /// The list element with these members, sorted by name: `k:{"name":"c"}`.
    Key(Box<[(Box<str>, Value)]>),
    /// The set element with this value: `v:"a"`.
    Value(Value),
    /// The list element at this index: `i:0`.
    Index(i64),
}

/// A path to a part of an object, displayed as `.spec.containers[name="c"].image`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path(pub Vec<Element>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(members) => {
                f.write_str("[")?;
                for (at, (name, value)) in members.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { "," })?;
                    write!(f, "{name}=")?;
                    write_value(value, f)?;
                }
                f.write_str("]")
            }
            Self::Value(value) => {
                f.write_str("[=")?;
                write_value(value, f)?;
                f.write_str("]")
            }
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Writes a value as Kubernetes does in paths. There is no separator between the members of an
/// object.
pub(crate) fn write_value(value: &Value, f: &mut impl fmt::Write) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(_) | Value::Number(_) => write!(f, "{}", Printed(value)),
        Value::String(text) => write!(f, "{}", Quoted(text)),
        Value::Array(list) => {
            f.write_str("[")?;
            for (at, element) in list.iter().enumerate() {
                f.write_str(if at == 0 { "" } else { "," })?;
                write_value(element, f)?;
            }
            f.write_str("]")
        }
        Value::Object(map) => map.iter().try_for_each(|(name, value)| {
            write!(f, "{name}=")?;
            write_value(value, f)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_written_as_kubernetes_writes_them() {
        let field = |name: &str| Element::Field(name.into());
        let key = |members: &[(&str, Value)]| {
            let own = |(name, value): &(&str, Value)| (Box::from(*name), value.clone());
            Element::Key(members.iter().map(own).collect())
        };
        for (path, text) in [
            (vec![], ""),
            (vec![field("spec"), field("replicas")], ".spec.replicas"),
            (
                vec![
                    field("ports"),
                    key(&[("containerPort", json!(80)), ("protocol", json!("TCP"))]),
                    field("name"),
                ],
                ".ports[containerPort=80,protocol=\"TCP\"].name",
            ),
            (
                vec![field("finalizers"), Element::Value(json!("a.io/x"))],
                ".finalizers[=\"a.io/x\"]",
            ),
            (vec![field("x"), Element::Index(0)], ".x[0]"),
            (vec![Element::Value(json!(1.5e10))], "[=1.5e+10]"),
            (vec![Element::Value(json!(null))], "[=null]"),
            (
                vec![Element::Value(json!([1, "a", true]))],
                "[=[1,\"a\",true]]",
            ),
            (vec![Element::Value(json!({"a": 1, "b": 2}))], "[=a=1b=2]"),
            (
                vec![Element::Value(json!(
                    "a\"\\\n\u{7f}\u{a0}é\u{1F600}'\u{301}"
                ))],
                "[=\"a\\\"\\\\\\n\\x7f\\u00a0é\u{1F600}'\u{301}\"]",
            ),
        ] {
            assert_eq!(Path(path).to_string(), text);
        }
    }
}
