//! Values of properties, which are looked up by path and written as XML.

use std::fmt::Write as _;

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A type of XML Schema, as in `xsd:string`, or an enumeration; and its text.
    Plain(&'static str, String),
    Object(Reference),
    /// An object in a field of any type.
    AnyObject(Reference),
    Data(Data),
    /// The type of its elements.
    List(&'static str, Vec<Value>),
    /// A type and its content as XML.
    Raw(&'static str, String),
}

/// An object, by kind and ID.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Reference {
    pub kind: &'static str,
    pub id: String,
}

/// A data object: its type and its fields in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Data {
    pub of: &'static str,
    pub fields: Vec<(&'static str, Value)>,
}

impl Reference {
    pub fn new(kind: &'static str, id: impl Into<String>) -> Self {
        let id = id.into();
        Self { kind, id }
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

impl Data {
    pub fn new(of: &'static str) -> Self {
        let fields = Vec::new();
        Self { of, fields }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    pub fn maybe(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let mut fields = self.fields.iter();
        Some(&fields.find(|(field, _)| *field == name)?.1)
    }

    fn write(&self, out: &mut String) {
        for (name, value) in &self.fields {
            value.write(name, Place::Field, out);
        }
    }
}

impl Value {
    pub fn text(of: &'static str, text: impl ToString) -> Self {
        Self::Plain(of, text.to_string())
    }

    /// The value at a path below this one. A path segment may select an element by its key, as in
    /// `extraConfig["guestinfo.metadata"]`.
    pub fn at(&self, path: &[String]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        let Self::Data(data) = self else { return None };
        let Some((name, key)) = first.split_once('[') else {
            return data.get(first)?.at(rest);
        };
        let key = key.trim_end_matches(']').trim_matches('"');
        let Self::List(_, elements) = data.get(name)? else {
            return None;
        };
        let mut elements = elements.iter();
        elements
            .find(|element| element.key() == Some(key))?
            .at(rest)
    }

    /// The objects that it refers to.
    pub fn objects(&self) -> Vec<Reference> {
        match self {
            Self::Object(object) | Self::AnyObject(object) => vec![object.clone()],
            Self::List(_, all) => all.iter().flat_map(Self::objects).collect(),
            Self::Plain(..) | Self::Data(_) | Self::Raw(..) => Vec::new(),
        }
    }

    /// The XML element of this name, with its type.
    pub fn element(&self, name: &str) -> String {
        let mut out = String::new();
        self.write(name, Place::Top, &mut out);
        out
    }

    fn key(&self) -> Option<&str> {
        match self {
            Self::Data(data) => match data.get("key") {
                Some(Self::Plain(_, key)) => Some(key),
                _ => None,
            },
            _ => None,
        }
    }

    fn write(&self, name: &str, place: Place, out: &mut String) {
        // Writing to a string does not fail.
        let _ = match self {
            Self::Plain(of, text) => {
                let of = attribute(of, place);
                write!(out, "<{name}{of}>{}</{name}>", escape(text))
            }
            Self::Object(Reference { kind, id }) | Self::AnyObject(Reference { kind, id }) => {
                let any = matches!(self, Self::AnyObject(_));
                let place = if any { Place::Top } else { place };
                let of = attribute("ManagedObjectReference", place);
                write!(out, "<{name} type=\"{kind}\"{of}>{}</{name}>", escape(id))
            }
            Self::Raw(of, content) => {
                write!(out, "<{name} xsi:type=\"{of}\">{content}</{name}>")
            }
            Self::Data(data) => {
                let of = data.of;
                let _ = write!(out, "<{name} xsi:type=\"{of}\">");
                data.write(out);
                write!(out, "</{name}>")
            }
            Self::List(of, elements) if place == Place::Top => {
                let _ = write!(out, "<{name} xsi:type=\"{}\">", array(of));
                for element in elements {
                    element.write(of.trim_start_matches("xsd:"), Place::Field, out);
                }
                write!(out, "</{name}>")
            }
            Self::List(_, elements) => {
                for element in elements {
                    element.write(name, Place::Field, out);
                }
                Ok(())
            }
        };
    }
}

/// The position of a value: a field's type is known from the schema, unless it is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Field,
}

/// The type attribute of an element, where it is required.
fn attribute(of: &str, place: Place) -> String {
    // The value of an option has any type, so its type is written.
    if place == Place::Top || of == ANY_STRING {
        format!(" xsi:type=\"{}\"", of.trim_end_matches('*'))
    } else {
        String::new()
    }
}

/// A string in a field of any type.
pub(super) const ANY_STRING: &str = "xsd:string*";

fn array(of: &str) -> String {
    let of = of.trim_start_matches("xsd:");
    let mut letters = of.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    format!("ArrayOf{}{}", first.unwrap_or_default(), letters.as_str())
}

pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}

impl From<Reference> for Value {
    fn from(object: Reference) -> Self {
        Self::Object(object)
    }
}

impl From<Data> for Value {
    fn from(data: Data) -> Self {
        Self::Data(data)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::text("xsd:string", text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Plain("xsd:string", text)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::text("xsd:boolean", truth)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::text("xsd:int", number)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::text("xsd:long", number)
    }
}

impl From<Vec<Reference>> for Value {
    fn from(objects: Vec<Reference>) -> Self {
        let objects = objects.into_iter().map(Self::Object).collect();
        Self::List("ManagedObjectReference", objects)
    }
}

impl From<Vec<Data>> for Value {
    fn from(all: Vec<Data>) -> Self {
        let of = all.first().map_or("DynamicData", |data| data.of);
        Self::List(of, all.into_iter().map(Self::Data).collect())
    }
}

impl From<Vec<String>> for Value {
    fn from(all: Vec<String>) -> Self {
        Self::List("xsd:string", all.into_iter().map(Self::from).collect())
    }
}
