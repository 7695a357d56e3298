//! The order of values and elements. Kubernetes writes sets in this order, so that clients see it.

use std::cmp::Ordering;

use insula_kinds::{Object, Value};

use super::Element;

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(one), Self::Field(two)) => one.cmp(two),
            (Self::Key(one), Self::Key(two)) => compare_keys(
                one.iter().map(|(name, value)| (&**name, value)),
                two.iter().map(|(name, value)| (&**name, value)),
            ),
            (Self::Value(one), Self::Value(two)) => compare_values(one, two),
            (Self::Index(one), Self::Index(two)) => one.cmp(two),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Equality as in the order: `1` and `1.0` are equal.
impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

impl Element {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// Compares the keys of list elements, member by member.
pub(crate) fn compare_keys<'a, 'b>(
    mut one: impl Iterator<Item = (&'a str, &'a Value)>,
    mut two: impl Iterator<Item = (&'b str, &'b Value)>,
) -> Ordering {
    loop {
        match (one.next(), two.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((one_name, one)), Some((two_name, two))) => {
                let order = one_name
                    .cmp(two_name)
                    .then_with(|| compare_values(one, two));
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

/// Compares values: numbers, strings, booleans, lists, objects, null, and then within each type.
pub(crate) fn compare_values(one: &Value, two: &Value) -> Ordering {
    match (one, two) {
        (Value::String(one), Value::String(two)) => one.cmp(two),
        (Value::Number(one), Value::Number(two)) => match (one.as_i64(), two.as_i64()) {
            (Some(one), Some(two)) => one.cmp(&two),
            _ => {
                let (one, two) = (one.as_f64(), two.as_f64());
                one.partial_cmp(&two).unwrap_or(Ordering::Equal)
            }
        },
        (Value::Bool(one), Value::Bool(two)) => one.cmp(two),
        (Value::Array(one), Value::Array(two)) => compare_lists(one, two),
        (Value::Object(one), Value::Object(two)) => compare_maps(one, two),
        _ => rank(one).cmp(&rank(two)),
    }
}

/// Returns whether two values are equal in Kubernetes, where `1` and `1.0` are.
pub(crate) fn equal_values(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::String(one), Value::String(two)) => one == two,
        (Value::Number(_), Value::Number(_)) => compare_values(one, two) == Ordering::Equal,
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| equal_values(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            // Both are sorted by name.
            let same = |((one_name, one), (two_name, two)): ((&String, _), (&String, _))| {
                one_name == two_name && equal_values(one, two)
            };
            one.len() == two.len() && one.iter().zip(two).all(same)
        }
        _ => one == two,
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_lists(one: &[Value], two: &[Value]) -> Ordering {
    let pairs = one.iter().zip(two);
    let orders = pairs.map(|(one, two)| compare_values(one, two));
    let first = orders.into_iter().find(|order| *order != Ordering::Equal);
    first.unwrap_or_else(|| one.len().cmp(&two.len()))
}

/// Compares by the first name that only one has or that has different values: the map without it is
/// greater, unless all its names were before.
fn compare_maps(one: &Object, two: &Object) -> Ordering {
    let (mut ones, mut twos) = (one.iter(), two.iter());
    loop {
        let order = match (ones.next(), twos.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((one_name, one)), Some((two_name, two))) => one_name
                .cmp(two_name)
                .then_with(|| compare_values(one, two)),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_ordered_by_type_and_then_by_value() {
        let ascending = [
            json!(-3),
            json!(1.5),
            json!(9),
            json!(10),
            json!(""),
            json!("10"),
            json!("9"),
            json!(false),
            json!(true),
            json!([]),
            json!([1]),
            json!([1, 2]),
            json!([2]),
            json!({}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
            json!({"a": 2}),
            json!({"b": 0}),
            json!(null),
        ];
        for (at, one) in ascending.iter().enumerate() {
            for (other, two) in ascending.iter().enumerate() {
                assert_eq!(compare_values(one, two), at.cmp(&other), "{one} {two}");
                assert_eq!(equal_values(one, two), at == other, "{one} {two}");
            }
        }
        assert!(equal_values(&json!({"a": [1]}), &json!({"a": [1.0]})));
    }

    #[test]
    fn fields_sort_before_keys_before_values_before_indexes() {
        let key = |value: Value| Element::Key([("a".into(), value)].into());
        let ascending = [
            Element::Field("a".into()),
            Element::Field("b".into()),
            key(json!(9)),
            key(json!(80)),
            key(json!("9")),
            Element::Value(json!(9)),
            Element::Value(json!(10)),
            Element::Value(json!("9")),
            Element::Index(2),
            Element::Index(10),
        ];
        for (at, one) in ascending.iter().enumerate() {
            for (other, two) in ascending.iter().enumerate() {
                assert_eq!(one.cmp(two), at.cmp(&other), "{one} {two}");
            }
        }
    }
}
