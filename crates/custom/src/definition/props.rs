//! A part of a definition as Go sees it: what is null is not there, and what is not there
//! is zero.

use insula_kinds::{Object, Value};

static NOTHING: Value = Value::Null;

/// An object of a definition: mostly, a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Props<'a>(&'a Value);

/// The `items` of a schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Items<'a> {
    /// Not there.
    None,
    /// One schema for all items.
    One(Props<'a>),
    /// A schema for each item, which is never right.
    Many(&'a [Value]),
}

/// What may be a schema, or say whether there may be anything.
#[derive(Clone, Copy, Debug)]
pub(super) enum SchemaOrBool<'a> {
    /// Not there.
    None,
    /// Anything, or nothing.
    Bool(bool),
    /// What the schema says.
    Schema(Props<'a>),
}

impl<'a> Props<'a> {
    /// The value as an object; what is none is empty.
    pub fn of(value: Option<&'a Value>) -> Self {
        Self(value.unwrap_or(&NOTHING))
    }

    /// The value itself.
    pub fn value(self) -> &'a Value {
        self.0
    }

    /// All members.
    pub fn members(self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.0.as_object().into_iter().flat_map(Object::iter)
    }

    /// The member, unless it is null.
    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Whether the member is there.
    pub fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The text, if there is any.
    pub fn maybe_text(self, name: &str) -> Option<&'a str> {
        self.get(name).and_then(Value::as_str)
    }

    /// The text, empty if there is none.
    pub fn text(self, name: &str) -> &'a str {
        self.maybe_text(name).unwrap_or_default()
    }

    /// Whether it is true.
    pub fn flag(self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool) == Some(true)
    }

    /// The integer, if there is one.
    pub fn int(self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    /// The list, empty if there is none.
    pub fn list(self, name: &str) -> &'a [Value] {
        self.get(name)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// The texts of a list.
    pub fn texts(self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let list = self.list(name).iter();
        list.map(|text| text.as_str().unwrap_or_default())
    }

    /// The object, if there is one.
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

    /// Whether there is any property.
    pub fn has_properties(self) -> bool {
        self.entries("properties").next().is_some()
    }

    /// The schema of items, one or many.
    pub fn items(self) -> Items<'a> {
        match self.get("items") {
            None => Items::None,
            Some(Value::Array(many)) => Items::Many(many),
            one => Items::One(Self::of(one)),
        }
    }

    /// The schema of all items.
    pub fn item(self) -> Option<Self> {
        match self.items() {
            Items::One(item) => Some(item),
            Items::None | Items::Many(_) => None,
        }
    }

    /// A schema or a truth, such as `additionalProperties`.
    pub fn schema_or_bool(self, name: &str) -> SchemaOrBool<'a> {
        match self.get(name) {
            None => SchemaOrBool::None,
            Some(Value::Bool(truth)) => SchemaOrBool::Bool(*truth),
            schema => SchemaOrBool::Schema(Self::of(schema)),
        }
    }

    /// Calls `visit` for this schema and all below, wherever they stand.
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

    /// Whether this schema or any below is such.
    pub fn any(self, such: impl Fn(Self) -> bool) -> bool {
        let mut found = false;
        self.walk(&mut |schema| found = found || such(schema));
        found
    }
}
