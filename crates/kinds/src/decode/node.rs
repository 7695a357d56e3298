//! One value of a document, decoded by its shape.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::location::{Location, Step};
use super::{DecodeError, MAX_DEPTH, bytes};
use crate::kind::kinds;
use crate::time::{self, Precision};
use crate::types::{Field, Form, Shape, TypeId, types};
use crate::{Object, quantity};

static TEXT: Shape = Shape::String;
static INT32: Shape = Shape::Int32;

/// Type metadata. The table of types leaves it out, since it is the same for all kinds.
pub(super) static META: [&str; 2] = ["apiVersion", "kind"];

/// Types that keep their type metadata even when embedded, such as the volume claims of a
/// StatefulSet.
pub(super) static NAMED: LazyLock<HashSet<TypeId>> =
    LazyLock::new(|| kinds().iter().map(|(_, kind)| kind.type_id()).collect());

/// A value to decode: seed and visitor in one. Null decodes to `None`.
#[derive(Clone, Copy)]
pub(super) struct Node<'p> {
    pub(super) shape: &'static Shape,
    pub(super) location: &'p Location<'p>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        match self.shape {
            Shape::Bool | Shape::Raw => Ok(Some(Value::Bool(value))),
            Shape::Struct(id) => match either(*id, |shape| *shape == Shape::Bool) {
                Either::This(_) => Ok(Some(Value::Bool(value))),
                Either::Neither(wrong) => self.neither(wrong),
                Either::No => self.mismatch("bool"),
            },
            _ => self.mismatch("bool"),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.integer(i128::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        self.integer(i128::from(value))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Self::Value, E> {
        self.integer(value)
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Self::Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        match self.shape {
            Shape::Float64 => Ok(Some(float(value))),
            Shape::Raw => Ok(Some(Value::from(value))),
            Shape::Int32 | Shape::Int64 | Shape::IntOrString => {
                self.bad_number(value, &format!("{value:?}"))
            }
            Shape::Quantity => self.quantity(&value.to_string()),
            _ => self.no_number(),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        self.text(Cow::Borrowed(text))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        self.text(Cow::Owned(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        self.check_depth()?;
        match self.shape {
            Shape::List(of) | Shape::WrappedList(of) => self.list(of, self.location, list),
            Shape::Raw => self.list(self.shape, self.location, list),
            Shape::Bytes => self.octets(list),
            Shape::Struct(id) => match either(*id, |shape| matches!(shape, Shape::List(_))) {
                Either::This(Shape::List(of)) => {
                    self.list(of, &self.location.child(Step::Separate), list)
                }
                Either::This(_) | Either::No => self.mismatch("array"),
                Either::Neither(wrong) => self.neither(wrong),
            },
            _ => self.mismatch("array"),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.check_depth()?;
        match self.shape {
            Shape::Map(of) => self.map(of, self.location, map),
            // Raw JSON is kept verbatim, without reporting problems in it.
            Shape::Raw => self.map(self.shape, &self.location.child(Step::Separate), map),
            Shape::Struct(id) => match either(*id, |shape| matches!(shape, Shape::Struct(_))) {
                Either::No => self.members(*id, map),
                Either::This(shape) => {
                    let location = &self.location.child(Step::Separate);
                    Node { shape, location }.visit_map(map)
                }
                Either::Neither(wrong) => self.neither(wrong),
            },
            _ => self.mismatch("object"),
        }
    }
}

impl Node<'_> {
    fn integer<E: Error>(self, value: i128) -> Result<Option<Value>, E> {
        match self.shape {
            Shape::Int32 | Shape::IntOrString => match i32::try_from(value) {
                Ok(value) => Ok(Some(Value::from(value))),
                Err(_) => self.bad_number(value as f64, &value.to_string()),
            },
            Shape::Int64 => match i64::try_from(value) {
                Ok(value) => Ok(Some(Value::from(value))),
                Err(_) => self.bad_number(value as f64, &value.to_string()),
            },
            Shape::Float64 => Ok(Some(float(value as f64))),
            Shape::Quantity => self.quantity(&value.to_string()),
            Shape::Raw => Ok(Some(match Number::from_i128(value) {
                Some(number) => Value::Number(number),
                None => Value::from(value as f64),
            })),
            _ => self.no_number(),
        }
    }

    fn text<E: Error>(self, text: Cow<'_, str>) -> Result<Option<Value>, E> {
        match self.shape {
            Shape::String | Shape::IntOrString | Shape::Raw => {
                Ok(Some(Value::String(text.into_owned())))
            }
            Shape::Bytes => match bytes::canonical(&text) {
                Ok(Cow::Borrowed(_)) => Ok(Some(Value::String(text.into_owned()))),
                Ok(Cow::Owned(canonical)) => Ok(Some(Value::String(canonical))),
                Err(at) => self.invalid(format!("illegal base64 data at input byte {at}")),
            },
            Shape::Time => self.time(text, Precision::Seconds),
            Shape::MicroTime => self.time(text, Precision::Micros),
            Shape::Quantity => self.quantity(&text),
            Shape::Struct(id) => match either(*id, |_| false) {
                Either::Neither(wrong) => self.neither(wrong),
                Either::This(_) | Either::No => self.mismatch("string"),
            },
            _ => self.mismatch("string"),
        }
    }

    fn time<E: Error>(self, text: Cow<'_, str>, to: Precision) -> Result<Option<Value>, E> {
        match time::canonical(&text, to) {
            Ok(Some(Cow::Borrowed(_))) => Ok(Some(Value::String(text.into_owned()))),
            Ok(Some(Cow::Owned(canonical))) => Ok(Some(Value::String(canonical))),
            Ok(None) => Ok(None),
            Err(error) => self.invalid(error.to_string()),
        }
    }

    fn quantity<E: Error>(self, text: &str) -> Result<Option<Value>, E> {
        match quantity::canonical(text) {
            Ok(canonical) => Ok(Some(Value::String(canonical))),
            Err(error) => self.invalid(error.to_string()),
        }
    }

    fn list<'de, A: SeqAccess<'de>>(
        self,
        shape: &'static Shape,
        location: &Location<'_>,
        mut from: A,
    ) -> Result<Option<Value>, A::Error> {
        // The hint is bounded, so that a short document cannot reserve much memory.
        let mut list = Vec::with_capacity(from.size_hint().unwrap_or(0).min(1024));
        loop {
            let location = &location.child(Step::Index(list.len()));
            match from.next_element_seed(Node { shape, location })? {
                Some(value) => list.push(value.unwrap_or_else(|| zero(shape))),
                None => return Ok(Some(Value::Array(list))),
            }
        }
    }

    /// Go accepts a list of numbers as bytes.
    fn octets<'de, A: SeqAccess<'de>>(self, mut from: A) -> Result<Option<Value>, A::Error> {
        let mut octets = Vec::new();
        let location = self.location;
        let shape = &INT32;
        while let Some(value) = from.next_element_seed(Node { shape, location })? {
            let number = value.as_ref().and_then(Value::as_i64).unwrap_or(0);
            match u8::try_from(number) {
                Ok(octet) => octets.push(octet),
                Err(_) => return self.bad_number(number as f64, &number.to_string()),
            }
        }
        Ok(Some(Value::String(bytes::encode(&octets))))
    }

    fn map<'de, A: MapAccess<'de>>(
        self,
        shape: &'static Shape,
        location: &Location<'_>,
        mut from: A,
    ) -> Result<Option<Value>, A::Error> {
        let mut map = Object::new();
        while let Some(key) = from.next_key::<String>()? {
            if map.contains_key(&key) {
                location.report("duplicate field", &key);
            }
            let child = location.child(Step::Key(&key));
            let value = from.next_value_seed(Node {
                shape,
                location: &child,
            })?;
            map.insert(key, value.unwrap_or_else(|| zero(shape)));
        }
        Ok(Some(Value::Object(map)))
    }

    fn members<'de, A: MapAccess<'de>>(
        self,
        id: TypeId,
        mut from: A,
    ) -> Result<Option<Value>, A::Error> {
        let of = types().get(id);
        let root = self.location.is_root();
        let mut object = Object::new();
        // Null means absent, but a second mention is still a duplicate.
        let mut nulls: Vec<&str> = Vec::new();
        while let Some(key) = from.next_key_seed(Key { id, root })? {
            let (name, shape) = match key {
                Known::Member(field) => (field.json, &field.shape),
                Known::Meta(name) => (name, &TEXT),
                Known::Not(name) => {
                    self.location.report("unknown field", &name);
                    from.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if object.contains_key(name) || nulls.contains(&name) {
                self.location.report("duplicate field", name);
            }
            let location = &self.location.child(Step::Field(of, name));
            match from.next_value_seed(Node { shape, location })? {
                Some(value) => {
                    object.insert(name.to_owned(), value);
                }
                None => {
                    object.remove(name);
                    nulls.push(name);
                }
            }
        }
        Ok(Some(Value::Object(object)))
    }

    fn check_depth<E: Error>(self) -> Result<(), E> {
        if self.location.depth < MAX_DEPTH {
            return Ok(());
        }
        self.location.fail(DecodeError::too_deep());
        Err(E::custom(""))
    }

    fn no_number<E: Error>(self) -> Result<Option<Value>, E> {
        if let Shape::Struct(id) = self.shape
            && let Either::Neither(wrong) = either(*id, |_| false)
        {
            return self.neither(wrong);
        }
        self.mismatch("number")
    }

    fn neither<E: Error>(self, wrong: Option<&str>) -> Result<Option<Value>, E> {
        match wrong {
            Some(wrong) => self.invalid(wrong.to_owned()),
            None => Ok(None),
        }
    }

    fn mismatch<E: Error>(self, found: &str) -> Result<Option<Value>, E> {
        match self.shape {
            // No quantity looks like the name of a JSON type.
            Shape::Quantity => return self.quantity(found),
            // Go names the type that it tried to decode into.
            Shape::Time | Shape::MicroTime => self.location.mismatch(found, &TEXT),
            Shape::IntOrString => self.location.mismatch(found, &INT32),
            shape => self.location.mismatch(found, shape),
        }
        Err(E::custom(""))
    }

    fn bad_number<E: Error>(self, number: f64, printed: &str) -> Result<Option<Value>, E> {
        match self.shape {
            Shape::IntOrString => self.location.bad_number(number, printed, &INT32),
            shape => self.location.bad_number(number, printed, shape),
        }
        Err(E::custom(""))
    }

    fn invalid<E: Error>(self, text: String) -> Result<Option<Value>, E> {
        self.location.fail(DecodeError::Type(text));
        Err(E::custom(""))
    }
}

/// The outcome of choosing one of two alternatives for a value.
enum Either {
    /// The type has no alternatives.
    No,
    /// The alternative that fits the value.
    This(&'static Shape),
    /// No alternative fits. The text is the error, if any; without one the value is
    /// dropped.
    Neither(Option<&'static str>),
}

fn either(id: TypeId, fits: impl Fn(&Shape) -> bool) -> Either {
    let of = types().get(id);
    if of.form != Form::Either {
        return Either::No;
    }
    let mut shapes = of.fields.iter().map(|field| &field.shape);
    match shapes.find(|shape| fits(shape)) {
        Some(shape) => Either::This(shape),
        None if of.fields.iter().any(|field| field.shape == Shape::Bool) => {
            Either::Neither(Some("boolean or JSON schema expected"))
        }
        None => Either::Neither(None),
    }
}

/// The name of a member.
struct Key {
    id: TypeId,
    root: bool,
}

enum Known {
    Member(&'static Field),
    Meta(&'static str),
    Not(String),
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Known;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Known, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Known;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Known, E> {
        if let Some(field) = types().member(self.id, name) {
            return Ok(Known::Member(field));
        }
        Ok(match META.iter().find(|meta| **meta == name) {
            Some(meta) if self.root || NAMED.contains(&self.id) => Known::Meta(meta),
            _ => Known::Not(name.to_owned()),
        })
    }
}

/// Returns the value that Go stores for null in a list or map.
fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => Value::from(""),
        Shape::Bool => Value::from(false),
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => Value::from(0),
        Shape::Quantity => Value::from("0"),
        Shape::Struct(id) if types().get(*id).form == Form::Object => Value::Object(Object::new()),
        Shape::Struct(_)
        | Shape::Time
        | Shape::MicroTime
        | Shape::Raw
        | Shape::List(_)
        | Shape::WrappedList(_)
        | Shape::Map(_) => Value::Null,
    }
}

/// Returns a number in canonical form: whole numbers are integers however they were
/// written.
fn float(value: f64) -> Value {
    // Whole numbers up to this one are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}
