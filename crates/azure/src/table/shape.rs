//! Shapes: where the fields of an object type stand in ARM, and what they become.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

/// The member of ARM that most fields of a root stand below.
const PROPERTIES: &str = "properties";

/// Fields of roots that stand beside `properties`, unless the shape says otherwise.
const TOP_LEVEL: [&str; 16] = [
    "additionalProperties",
    "etag",
    "extendedLocation",
    "id",
    "identity",
    "kind",
    "location",
    "managedBy",
    "name",
    "placement",
    "plan",
    "sku",
    "systemData",
    "tags",
    "type",
    "zones",
];

/// What does not follow from the rules about one object type.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Shape {
    #[serde(default)]
    pub(super) beside: Vec<Box<str>>,
    #[serde(default)]
    pub(super) under: BTreeMap<Box<str>, Vec<Box<str>>>,
    #[serde(default)]
    pub(super) one_of: Option<OneOf>,
    #[serde(default)]
    pub(super) nulls: Vec<Box<str>>,
    #[serde(default)]
    pub(super) fields: BTreeMap<Box<str>, StoredRule>,
}

/// A union: an object with one of several members, in the place of which ARM has that member's value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneOf {
    /// The field of the value that tells which member it is.
    pub by: String,
    /// The value of that field for each member.
    pub variants: BTreeMap<String, String>,
}

impl OneOf {
    /// Returns the member whose values have this value of the field [`by`](Self::by).
    pub fn member(&self, value: &str) -> Option<&str> {
        let mut variants = self.variants.iter();
        let found = variants.find(|(_, of)| *of == value);
        found.map(|(member, _)| member.as_str())
    }
}

/// A rule as it is stored: shapes are numbers.
#[derive(Clone, Debug)]
pub(super) enum StoredRule {
    Object(u32),
    Map(Option<u32>),
    Json,
    Reference(Box<str>),
    WellKnown(Box<str>),
    Identities,
    Secret(Box<str>),
    SecretMap(Box<str>),
    SecretCollection(Box<str>),
    Config(Box<str>),
    KeepEmptyList,
    KeepEmptyMap,
    Renamed(Box<str>, Option<u32>),
    Omitted,
}

impl StoredRule {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let rule = words.next()?;
        let argument = words.next();
        let name = argument.map(Box::from);
        let number = |word: Option<&str>| word.map(str::parse).transpose().ok();
        Some(match (rule, argument) {
            ("map", number_word) => Self::Map(number(number_word)?),
            ("json", None) => Self::Json,
            ("identities", None) => Self::Identities,
            ("none", None) => Self::Omitted,
            ("keepEmpty", Some("list")) => Self::KeepEmptyList,
            ("keepEmpty", Some("map")) => Self::KeepEmptyMap,
            ("as", Some(_)) => Self::Renamed(name?, number(words.next())?),
            ("reference", Some(_)) => Self::Reference(name?),
            ("wellKnown", Some(_)) => Self::WellKnown(name?),
            ("secret", Some(_)) => Self::Secret(name?),
            ("secretMap", Some(_)) => Self::SecretMap(name?),
            ("secretCollection", Some(_)) => Self::SecretCollection(name?),
            ("config", Some(_)) => Self::Config(name?),
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for StoredRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Shape(u32),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Shape(shape) => Ok(Self::Object(shape)),
            Either::Text(text) => Self::parse(&text)
                .ok_or_else(|| de::Error::custom(format!("{text:?} is not a rule"))),
        }
    }
}

/// The shape of an object type, with those below it.
#[derive(Clone, Copy, Debug)]
pub struct ShapeRef<'a> {
    shapes: &'a [Shape],
    shape: Option<&'a Shape>,
    root: bool,
}

impl<'a> ShapeRef<'a> {
    pub(super) fn root(shapes: &'a [Shape], number: Option<u32>) -> Self {
        Self {
            root: true,
            ..Self::new(shapes, number)
        }
    }

    fn new(shapes: &'a [Shape], number: Option<u32>) -> Self {
        let number = number.and_then(|number| usize::try_from(number).ok());
        Self {
            shapes,
            shape: number.and_then(|number| shapes.get(number)),
            root: false,
        }
    }

    /// Tells whether this is the shape of a whole spec or status.
    pub fn is_root(self) -> bool {
        self.root
    }

    /// The rule of a field, by its name in the custom resource.
    pub fn rule(self, field: &str) -> Rule<'a> {
        let rule = self.shape.and_then(|shape| shape.fields.get(field));
        match rule {
            Some(rule) => self.resolve(rule),
            None if field == "tags" => Rule::Map(None),
            None => Rule::Plain,
        }
    }

    /// The fields with a rule.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, Rule<'a>)> {
        let fields = self.shape.into_iter().flat_map(|shape| &shape.fields);
        fields.map(move |(name, rule)| (&**name, self.resolve(rule)))
    }

    /// Where a field of the custom resource stands in ARM.
    pub fn place(self, field: &str) -> Place<'a> {
        let has = |names: &[Box<str>]| names.iter().any(|name| &**name == field);
        if let Some(shape) = self.shape {
            if shape.one_of.is_some() || has(&shape.beside) {
                return Place::Beside;
            }
            if let Some((member, _)) = shape.under.iter().find(|(_, names)| has(names)) {
                return Place::Under(member);
            }
        }
        match self.root && !TOP_LEVEL.contains(&field) {
            true => Place::Under(PROPERTIES),
            false => Place::Beside,
        }
    }

    /// The members of ARM, other than `properties` of a root, that fields stand below.
    pub fn flattened(self) -> impl Iterator<Item = &'a str> {
        let members = self.shape.into_iter().flat_map(|shape| shape.under.keys());
        members.map(|member| &**member)
    }

    /// Lists and maps that are sent as `null` while they are absent, by their names in the custom
    /// resource. One that stands below a member is only sent if that member is.
    pub fn nulls(self) -> impl Iterator<Item = &'a str> {
        let nulls = self.shape.into_iter().flat_map(|shape| &shape.nulls);
        nulls.map(|name| &**name)
    }

    /// The union that the object is.
    pub fn one_of(self) -> Option<&'a OneOf> {
        self.shape.and_then(|shape| shape.one_of.as_ref())
    }

    fn resolve(self, rule: &'a StoredRule) -> Rule<'a> {
        let below = |number: &u32| Self::new(self.shapes, Some(*number));
        match rule {
            StoredRule::Object(shape) => Rule::Object(below(shape)),
            StoredRule::Map(shape) => Rule::Map(shape.as_ref().map(below)),
            StoredRule::Json => Rule::Json,
            StoredRule::Reference(name) => Rule::Reference(name),
            StoredRule::WellKnown(name) => Rule::WellKnown(name),
            StoredRule::Identities => Rule::Identities,
            StoredRule::Secret(name) => Rule::Secret(name),
            StoredRule::SecretMap(name) => Rule::SecretMap(name),
            StoredRule::SecretCollection(name) => Rule::SecretCollection(name),
            StoredRule::Config(name) => Rule::Config(name),
            StoredRule::KeepEmptyList => Rule::KeepEmptyList,
            StoredRule::KeepEmptyMap => Rule::KeepEmptyMap,
            StoredRule::Renamed(name, shape) => Rule::Renamed(name, shape.as_ref().map(below)),
            StoredRule::Omitted => Rule::Omitted,
        }
    }
}

/// Where a field stands in ARM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// In the object itself.
    Beside,
    /// In this member of the object.
    Under(&'a str),
}

/// What a field of a custom resource becomes in ARM. Names are those of the field in ARM.
#[derive(Clone, Copy, Debug)]
pub enum Rule<'a> {
    /// The value as it is.
    Plain,
    /// An object, or a list of objects, with a shape.
    Object(ShapeRef<'a>),
    /// An object with free keys, the values of which may have a shape.
    Map(Option<ShapeRef<'a>>),
    /// JSON of any form.
    Json,
    /// A reference to a resource, or a list of them: the ARM id.
    Reference(&'a str),
    /// A reference to a resource that may have a well-known name instead.
    WellKnown(&'a str),
    /// A list of references to identities: an object with the ARM ids as keys.
    Identities,
    /// A reference to a key of a Secret: its value.
    Secret(&'a str),
    /// A reference to a Secret: an object with all its keys.
    SecretMap(&'a str),
    /// A reference to a Secret: a list of all its values.
    SecretCollection(&'a str),
    /// A reference to a key of a ConfigMap: its value.
    Config(&'a str),
    /// A list that is sent even if it is absent.
    KeepEmptyList,
    /// An object with free keys that is sent even if it is absent.
    KeepEmptyMap,
    /// The value under another name, with the shape of its objects.
    Renamed(&'a str, Option<ShapeRef<'a>>),
    /// Nothing: ARM has no such field.
    Omitted,
}
