//! Writes that would change only the times of entries.

use insula_kinds::{Object, Value};

use super::record::list;

/// Restores the times of the old object's entries if nothing else differs, so that there is nothing
/// to write.
pub fn keep(old: &Object, new: &mut Object) {
    let (Some(were), Some(are)) = (list(old), list(new)) else {
        return;
    };
    let mut both = were.iter().zip(are);
    let same = were.len() == are.len()
        && were != are
        && both.all(|(old, new)| same_except(old, new, "time", Value::eq))
        && same_but_entries(old, new, Value::eq);
    if !same {
        return;
    }
    let were = Value::Array(were.clone());
    if let Some(Value::Object(metadata)) = new.get_mut("metadata") {
        metadata.insert("managedFields".to_owned(), were);
    }
}

/// Returns whether two objects are equal apart from their managed fields.
pub(super) fn same_but_entries(
    old: &Object,
    new: &Object,
    same: impl Fn(&Value, &Value) -> bool + Copy,
) -> bool {
    let member = |(name, old): (&String, &Value)| match (name.as_str(), new.get(name)) {
        ("metadata", Some(new)) => same_except(old, new, "managedFields", same),
        (_, Some(new)) => same(old, new),
        _ => false,
    };
    old.len() == new.len() && old.iter().all(member)
}

/// Returns whether all members are equal, except for one.
fn same_except(
    old: &Value,
    new: &Value,
    except: &str,
    same: impl Fn(&Value, &Value) -> bool,
) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return same(old, new);
    };
    let count = |object: &Object| object.len() - usize::from(object.contains_key(except));
    let mut members = old.iter().filter(|(name, _)| *name != except);
    count(old) == count(new)
        && members.all(|(name, old)| new.get(name).is_some_and(|new| same(old, new)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(data: &str, entries: &[(&str, &str, Option<&str>)]) -> Object {
        let entry = |(manager, fields, time): &(&str, &str, Option<&str>)| {
            let mut entry = json!({"manager": manager, "fieldsV1": {*fields: {}}});
            if let Some(time) = time {
                entry["time"] = json!(time);
            }
            entry
        };
        let entries: Vec<_> = entries.iter().map(entry).collect();
        let object = json!({"data": data, "metadata": {"name": "x", "managedFields": entries}});
        object.as_object().unwrap().clone()
    }

    #[test]
    fn times_are_kept_if_nothing_else_differs() {
        let old = object("1", &[("a", "f:x", Some("1")), ("b", "f:y", None)]);
        for (new, kept) in [
            (
                object("1", &[("a", "f:x", Some("2")), ("b", "f:y", None)]),
                true,
            ),
            (
                object("1", &[("a", "f:x", None), ("b", "f:y", Some("2"))]),
                true,
            ),
            (
                object("2", &[("a", "f:x", Some("2")), ("b", "f:y", None)]),
                false,
            ),
            (
                object("1", &[("a", "f:z", Some("2")), ("b", "f:y", None)]),
                false,
            ),
            (object("1", &[("a", "f:x", Some("2"))]), false),
            (object("1", &[]), false),
        ] {
            let mut after = new.clone();
            keep(&old, &mut after);
            assert_eq!(after == old, kept, "{new:?}");
            assert_eq!(after == new, !kept, "{new:?}");
        }
        let mut none = Object::new();
        keep(&old, &mut none);
        assert!(none.is_empty());
    }
}
