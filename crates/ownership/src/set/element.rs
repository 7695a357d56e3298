//! Steps of paths, and how they are written in messages.

use std::fmt;

use insula_kinds::Value;
use insula_kinds::go::Printed;

/// One step of a path.
#[derive(Clone, Debug)]
pub enum Element {
    /// A member of an object: `f:name`.
    Field(Box<str>),
    /// The element of a list that has these members, which are in the order of their names:
    /// `k:{"name":"c"}`.
    Key(Box<[(Box<str>, Value)]>),
    /// The element of a set that is this value: `v:"a"`.
    Value(Value),
    /// The element of a list at this place: `i:0`.
    Index(i64),
}

/// A path to a part of an object. Written `.spec.containers[name="c"].image`.
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

/// A value as Kubernetes writes it in paths. It puts nothing between the members of an
/// object.
pub(crate) fn write_value(value: &Value, f: &mut impl fmt::Write) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(_) | Value::Number(_) => write!(f, "{}", Printed(value)),
        Value::String(text) => quote(text, f),
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

/// As Go's `%q`.
pub(crate) fn quote(text: &str, f: &mut impl fmt::Write) -> fmt::Result {
    f.write_char('"')?;
    for letter in text.chars() {
        match letter {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\x07' => f.write_str("\\a")?,
            '\x08' => f.write_str("\\b")?,
            '\x0c' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\x0b' => f.write_str("\\v")?,
            letter if u32::from(letter) < 0x20 || letter == '\x7f' => {
                write!(f, "\\x{:02x}", u32::from(letter))?;
            }
            letter if is_shown(letter) => f.write_char(letter)?,
            letter if u32::from(letter) < 0x1_0000 => write!(f, "\\u{:04x}", u32::from(letter))?,
            letter => write!(f, "\\U{:08x}", u32::from(letter))?,
        }
    }
    f.write_char('"')
}

/// Whether Go prints the letter as it is. Rust's own escapes leave the same alone, if the
/// letter is not the first.
fn is_shown(letter: char) -> bool {
    let text = String::from_iter(['a', letter]);
    letter.is_ascii() || text.escape_debug().nth(1) == Some(letter)
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
