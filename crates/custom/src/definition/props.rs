//! A JSON object with Go's semantics: null equals absent, and absent fields have zero values.

use insula_kinds::{Object, Value};

static NOTHING: Value = Value::Null;

/// An object in a definition, mostly a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Props<'a>(&'a Value);

/// The `items` of a schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Items<'a> {
    /// Absent.
    None,
    /// One schema for all items.
    One(Props<'a>),
    /// A schema per item, which is always invalid.
    Many(&'a [Value]),
}

/// A schema or a boolean.
#[derive(Clone, Copy, Debug)]
pub(super) enum SchemaOrBool<'a> {
    /// Absent.
    None,
    /// Anything or nothing.
    Bool(bool),
    /// A schema.
    Schema(Props<'a>),
}

impl<'a> Props<'a> {
    /// Treats a value as an object; other types are empty.
    pub fn of(value: Option<&'a Value>) -> Self {
        Self(value.unwrap_or(&NOTHING))
    }

    /// The JSON value.
    pub fn value(self) -> &'a Value {
        self.0
    }

    /// All fields.
    pub fn members(self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.0.as_object().into_iter().flat_map(Object::iter)
    }

    /// The field, unless it is null.
    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Reports whether the field is present and not null.
    pub fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The string, if present.
    pub fn maybe_text(self, name: &str) -> Option<&'a str> {
        self.get(name).and_then(Value::as_str)
    }

    /// The string; empty if absent.
    pub fn text(self, name: &str) -> &'a str {
        self.maybe_text(name).unwrap_or_default()
    }

    /// Reports whether the boolean is true.
    pub fn flag(self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool) == Some(true)
    }

    /// The integer, if present.
    pub fn int(self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    /// The list; empty if absent.
    pub fn list(self, name: &str) -> &'a [Value] {
        self.get(name)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// The strings of a list.
    pub fn texts(self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let list = self.list(name).iter();
        list.map(|text| text.as_str().unwrap_or_default())
    }

    /// The object, if present.
    pub fn child(self, name: &str) -> Option<Self> {
        self.get(name).map(|value| Self::of(Some(value)))
    }

    /// The objects of a list.
    pub fn children(self, name: &str) -> impl Iterator<Item = Self> + use<'a> {
        self.list(name).iter().map(|value| Self::of(Some(value)))
    }

    /// The objects of a map.
    pub fn entries(self, name: &str) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let map = self.get(name).and_then(Value::as_object);
        let entries = map.into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), Self::of(Some(value))))
    }

    /// The schema of a property.
    pub fn property(self, name: &str) -> Option<Self> {
        let properties = self.get("properties")?.as_object()?;
        properties.get(name).map(|value| Self::of(Some(value)))
    }

    /// Reports whether there are any properties.
    pub fn has_properties(self) -> bool {
        self.entries("properties").next().is_some()
    }

    /// The `items`, one schema or many.
    pub fn items(self) -> Items<'a> {
        match self.get("items") {
            None => Items::None,
            Some(Value::Array(many)) => Items::Many(many),
            one => Items::One(Self::of(one)),
        }
    }

    /// The single schema of all items, if any.
    pub fn item(self) -> Option<Self> {
        match self.items() {
            Items::One(item) => Some(item),
            Items::None | Items::Many(_) => None,
        }
    }

    /// A schema or boolean, such as `additionalProperties`.
    pub fn schema_or_bool(self, name: &str) -> SchemaOrBool<'a> {
        match self.get(name) {
            None => SchemaOrBool::None,
            Some(Value::Bool(truth)) => SchemaOrBool::Bool(*truth),
            schema => SchemaOrBool::Schema(Self::of(schema)),
        }
    }

    /// Visits this schema and all schemas below.
    pub fn walk(self, visit: &mut dyn FnMut(Self)) {
        visit(self);
        match self.items() {
            Items::None => {}
            Items::One(item) => item.walk(visit),
            Items::Many(items) => items
                .iter()
                .for_each(|item| Self::of(Some(item)).walk(visit)),
        }
        for junctor in ["allOf", "anyOf", "oneOf"] {
            self.children(junctor).for_each(|child| child.walk(visit));
        }
        if let Some(not) = self.child("not") {
            not.walk(visit);
        }
        self.entries("properties")
            .for_each(|(_, child)| child.walk(visit));
        if let SchemaOrBool::Schema(child) = self.schema_or_bool("additionalProperties") {
            child.walk(visit);
        }
        self.entries("patternProperties")
            .for_each(|(_, child)| child.walk(visit));
        if let SchemaOrBool::Schema(child) = self.schema_or_bool("additionalItems") {
            child.walk(visit);
        }
        for map in ["definitions", "dependencies"] {
            self.entries(map).for_each(|(_, child)| child.walk(visit));
        }
    }

    /// Reports whether this schema or any below satisfies the condition.
    pub fn any(self, such: impl Fn(Self) -> bool) -> bool {
        let mut found = false;
        self.walk(&mut |schema| found = found || such(schema));
        found
    }
}
