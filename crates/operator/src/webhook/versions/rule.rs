//! The rules for fields that differ between two versions.

use serde_json::{Map, Value};

use super::{Version, duration};

/// The fields of an object.
pub type Fields = Map<String, Value>;

/// How fields of an object differ between two versions.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// A field has another name.
    Rename {
        /// The name in the older version.
        older: &'static str,
        /// The name in the newer version.
        newer: &'static str,
    },
    /// The newer version has an object where the older one has its only member.
    Wrap {
        /// The field in the older version.
        older: &'static str,
        /// The object in the newer version.
        newer: &'static str,
        /// The member of the object.
        member: &'static str,
    },
    /// The newer version has one member of an object instead of the object.
    Unwrap {
        /// The object in the older version.
        older: &'static str,
        /// The member of the object.
        member: &'static str,
        /// The field in the newer version.
        newer: &'static str,
    },
    /// A duration as a text of Go in the older version, and as whole seconds in the newer one. A
    /// duration that is not positive is missing.
    Seconds {
        /// The field in the older version.
        older: &'static str,
        /// The field in the newer version.
        newer: &'static str,
    },
    /// A map of objects in the older version, and a list of them in the newer one, sorted by key.
    MapToList {
        /// The field.
        field: &'static str,
        /// The field of the list's objects that contains the key of the map.
        key: &'static str,
    },
    /// Empty texts and objects, and the number 0, are missing in the newer version.
    OmitEmpty(&'static [&'static str]),
    /// The empty text of the older version is another one in the newer version.
    EmptyText {
        /// The field.
        field: &'static str,
        /// The text in the newer version.
        newer: &'static str,
    },
    /// The older version does not have these fields.
    OnlyNewer(&'static [&'static str]),
    /// The newer version does not have these fields.
    OnlyOlder(&'static [&'static str]),
    /// The newer version has no other fields.
    Retain(&'static [&'static str]),
    /// Rules for the object in a field, by the field's name at this place of the list.
    In(&'static str, &'static [Rule]),
    /// Rules for the objects of the list in a field.
    Each(&'static str, &'static [Rule]),
    /// Rules that several kinds share.
    All(&'static [Rule]),
    /// Anything else.
    Custom {
        /// Converts to the newer version.
        upgrade: fn(&mut Fields),
        /// Converts to the older version.
        downgrade: fn(&mut Fields),
    },
}

/// Applies rules in order, or to the older version in reverse order.
pub(super) fn apply(rules: &[Rule], to: Version, fields: &mut Fields) {
    match to {
        Version::Newer => rules.iter().for_each(|rule| rule.upgrade(fields)),
        Version::Older => rules.iter().rev().for_each(|rule| rule.downgrade(fields)),
    }
}

impl Rule {
    fn upgrade(self, fields: &mut Fields) {
        match self {
            Self::Rename { older, newer } => replace(fields, older, newer, Some),
            Self::Wrap {
                older,
                newer,
                member,
            } => replace(fields, older, newer, |value| Some(wrap(member, value))),
            Self::Unwrap {
                older,
                member,
                newer,
            } => replace(fields, older, newer, |value| unwrap(member, value)),
            Self::Seconds { older, newer } => replace(fields, older, newer, |value| {
                duration::seconds(value.as_str()?).map(Into::into)
            }),
            Self::MapToList { field, key } => {
                replace(fields, field, field, |map| to_list(key, map))
            }
            Self::OmitEmpty(names) => {
                fields.retain(|name, value| !(names.contains(&name.as_str()) && is_empty(value)));
            }
            Self::EmptyText { field, newer } => {
                if fields.get(field).is_some_and(|value| value == "") {
                    fields.insert(field.to_owned(), newer.into());
                }
            }
            Self::OnlyNewer(_) => {}
            Self::OnlyOlder(names) => fields.retain(|name, _| !names.contains(&name.as_str())),
            Self::Retain(names) => fields.retain(|name, _| names.contains(&name.as_str())),
            Self::Custom { upgrade, .. } => upgrade(fields),
            Self::In(..) | Self::Each(..) | Self::All(_) => self.descend(Version::Newer, fields),
        }
    }

    fn downgrade(self, fields: &mut Fields) {
        match self {
            Self::Rename { older, newer } => replace(fields, newer, older, Some),
            Self::Wrap {
                older,
                newer,
                member,
            } => replace(fields, newer, older, |value| unwrap(member, value)),
            Self::Unwrap {
                older,
                member,
                newer,
            } => replace(fields, newer, older, |value| Some(wrap(member, value))),
            Self::Seconds { older, newer } => replace(fields, newer, older, |value| {
                let seconds = value.as_i64().filter(|&seconds| seconds > 0)?;
                Some(duration::text(seconds).into())
            }),
            Self::MapToList { field, key } => {
                replace(fields, field, field, |list| to_map(key, list))
            }
            Self::OnlyNewer(names) => fields.retain(|name, _| !names.contains(&name.as_str())),
            Self::OmitEmpty(_) | Self::EmptyText { .. } | Self::OnlyOlder(_) | Self::Retain(_) => {}
            Self::Custom { downgrade, .. } => downgrade(fields),
            Self::In(..) | Self::Each(..) | Self::All(_) => self.descend(Version::Older, fields),
        }
    }

    /// Applies the rules that it contains.
    fn descend(self, to: Version, fields: &mut Fields) {
        match self {
            Self::All(rules) => apply(rules, to, fields),
            Self::In(field, rules) => {
                let object = fields.get_mut(field).and_then(Value::as_object_mut);
                object.into_iter().for_each(|it| apply(rules, to, it));
            }
            Self::Each(field, rules) => {
                let list = fields.get_mut(field).and_then(Value::as_array_mut);
                let objects = list.into_iter().flatten().filter_map(Value::as_object_mut);
                objects.for_each(|it| apply(rules, to, it));
            }
            _ => {}
        }
    }
}

/// Removes a field and inserts another one with the converted value, if there is one.
fn replace(
    fields: &mut Fields,
    from: &str,
    to: &str,
    convert: impl FnOnce(Value) -> Option<Value>,
) {
    if let Some(value) = fields.remove(from).and_then(convert) {
        fields.insert(to.to_owned(), value);
    }
}

fn wrap(member: &str, value: Value) -> Value {
    Value::Object(Fields::from_iter([(member.to_owned(), value)]))
}

fn unwrap(member: &str, mut object: Value) -> Option<Value> {
    object.as_object_mut()?.remove(member)
}

fn to_list(key: &str, map: Value) -> Option<Value> {
    let Value::Object(map) = map else {
        return Some(map);
    };
    let mut entries: Vec<_> = map.into_iter().collect();
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    let objects = entries.into_iter().filter_map(|(name, mut object)| {
        object.as_object_mut()?.insert(key.to_owned(), name.into());
        Some(object)
    });
    Some(objects.collect())
}

fn to_map(key: &str, list: Value) -> Option<Value> {
    let Value::Array(list) = list else {
        return Some(list);
    };
    let entries = list.into_iter();
    let entries = entries.filter_map(|mut object| match object.as_object_mut()?.remove(key)? {
        Value::String(name) => Some((name, object)),
        _ => None,
    });
    Some(entries.collect())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    }
}
