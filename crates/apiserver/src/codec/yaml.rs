//! JSON as YAML, with the members of every object in the order of their names.

use std::collections::BTreeMap;

use bytes::Bytes;
use insula_kinds::Value;
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

/// Converts JSON to YAML. Of a list, one item is decoded at a time: all of them could take a
/// hundred times the memory of the text.
pub fn from_json(json: &[u8]) -> Bytes {
    let text = serde_json::from_slice::<&RawValue>(json);
    let value = text.map(|text| Decoded {
        text,
        levels: LIST_LEVELS,
    });
    let yaml = value.map(|value| serde_saphyr::to_string(&value).unwrap_or_default());
    yaml.unwrap_or_default().into()
}

/// The YAML of a list before and after its items.
#[derive(Debug, PartialEq, Eq)]
pub struct ListEnds {
    /// The text before the items.
    pub head: String,
    /// The text after the items.
    pub tail: String,
}

impl ListEnds {
    /// The ends of a list that has its items in `member`, from its JSON without any items.
    pub fn new(json: &[u8], member: &str) -> Self {
        let mut members: BTreeMap<String, Value> = serde_json::from_slice(json).unwrap_or_default();
        members.remove(member);
        let after = members.split_off(member);
        let text = |members: &BTreeMap<String, Value>| match members.is_empty() {
            true => String::new(),
            false => serde_saphyr::to_string(members).unwrap_or_default(),
        };
        Self {
            head: format!("{}{member}:\n", text(&members)),
            tail: text(&after),
        }
    }
}

/// Appends an item of a list that has its items in `member`.
pub fn write_item(member: &str, json: &[u8], out: &mut Vec<u8>) {
    let item: Value = serde_json::from_slice(json).unwrap_or_default();
    let list = BTreeMap::from([(member, [item])]);
    let text = serde_saphyr::to_string(&list).unwrap_or_default();
    // The first line is the name of the member.
    let item = text.split_once('\n').map_or("", |(_, item)| item);
    out.extend_from_slice(item.as_bytes());
}

/// The levels above the items of a list: the list, and its member with the items.
const LIST_LEVELS: usize = 2;

/// A value that is decoded while it is serialized: level by level, and below that as a whole.
struct Decoded<'a> {
    text: &'a RawValue,
    levels: usize,
}

impl Serialize for Decoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.text.get();
        let first = text.trim_start().bytes().next();
        let inside = |text| Decoded {
            text,
            levels: self.levels - 1,
        };
        match first {
            Some(b'{') if self.levels > 0 => {
                let members: BTreeMap<String, &RawValue> = decode::<_, S>(text)?;
                serializer.collect_map(members.into_iter().map(|(name, of)| (name, inside(of))))
            }
            Some(b'[') if self.levels > 0 => {
                let items: Vec<&RawValue> = decode::<_, S>(text)?;
                serializer.collect_seq(items.into_iter().map(inside))
            }
            _ => decode::<Value, S>(text)?.serialize(serializer),
        }
    }
}

fn decode<'a, T: serde::Deserialize<'a>, S: Serializer>(text: &'a str) -> Result<T, S::Error> {
    serde_json::from_str(text).map_err(S::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_is_that_of_the_whole_decoded_value() {
        let item = json!({"metadata": {"name": "a", "labels": {}}, "data": {"b": "1\n2\n", "a": ""},
            "list": [1, [], {"x": null}]});
        for value in [
            json!({"kind": "List", "items": [item, item], "apiVersion": "v1", "metadata": {}}),
            json!({"items": []}),
            item,
            json!([1, {"b": 2, "a": 1}]),
            json!("text"),
            json!({}),
        ] {
            let expected = serde_saphyr::to_string(&value).unwrap();
            let yaml = from_json(value.to_string().as_bytes());
            assert_eq!(String::from_utf8_lossy(&yaml), expected);
        }
        // Members that are not in order.
        let yaml = from_json(br#"{"b":{"d":1,"c":2},"a":[{"f":1,"e":2}]}"#);
        let sorted = json!({"a": [{"e": 2, "f": 1}], "b": {"c": 2, "d": 1}});
        let sorted = serde_saphyr::to_string(&sorted).unwrap();
        assert_eq!(String::from_utf8_lossy(&yaml), sorted);
    }

    #[test]
    fn list_in_pieces_is_that_of_the_whole() {
        let items = [
            json!({"metadata": {"name": "a"}, "data": {"b": "1\n2\n", "a": "", "c": "# x: y"}}),
            json!({"cells": ["a", null, 1.5, true, [], {}], "object": null}),
            json!({}),
        ];
        for member in ["items", "rows", "a", "z"] {
            let mut list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"x": "1"},
                "columnDefinitions": [{"name": "Name"}]});
            let ends = ListEnds::new(list.to_string().as_bytes(), member);
            let mut pieces = ends.head.into_bytes();
            for item in &items {
                write_item(member, item.to_string().as_bytes(), &mut pieces);
            }
            pieces.extend_from_slice(ends.tail.as_bytes());
            list[member] = json!(items);
            let whole = from_json(list.to_string().as_bytes());
            assert_eq!(
                String::from_utf8_lossy(&pieces),
                String::from_utf8_lossy(&whole)
            );
        }
    }

    #[test]
    fn text_that_is_no_json_is_nothing() {
        assert_eq!(from_json(b"{"), Bytes::new());
    }
}
