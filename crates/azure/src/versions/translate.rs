//! Values of one version as values of another one.

use serde_json::{Map, Value, json};

use super::bag::{self, Bag};
use super::schema::Schema;

/// A field that is a text with an ARM id in some versions, and a reference in others.
#[derive(Debug)]
struct Pair {
    group: &'static str,
    kind: &'static str,
    id: &'static str,
    reference: &'static str,
}

/// The fields that Azure Service Operator converts although their names differ.
const PAIRS: &[Pair] = &[
    Pair {
        group: "machinelearningservices.azure.com",
        kind: "WorkspacesCompute",
        id: "loadBalancerSubnet",
        reference: "loadBalancerSubnetReference",
    },
    Pair {
        group: "dbformysql.azure.com",
        kind: "FlexibleServer",
        id: "sourceServerResourceId",
        reference: "sourceServerResourceReference",
    },
    Pair {
        group: "documentdb.azure.com",
        kind: "DatabaseAccount",
        id: "networkAclBypassResourceIds",
        reference: "networkAclBypassResourceReferences",
    },
];

/// Translates values of a kind by their fields' names.
#[derive(Debug)]
pub(super) struct Translator(Vec<&'static Pair>);

impl Translator {
    pub fn new(group: &str, kind: &str) -> Self {
        let pairs = PAIRS.iter();
        Self(
            pairs
                .filter(|it| it.group == group && it.kind == kind)
                .collect(),
        )
    }

    /// Returns a value with the fields of a schema. Fields that the schema does not have, or has
    /// with another type, are in property bags, whether the schema has property bags or not.
    pub fn translate(&self, value: Value, schema: &Schema) -> Value {
        match (value, schema) {
            (Value::Object(object), Schema::Object(_)) => self.object(object, schema).into(),
            (Value::Object(object), Schema::Map(values)) => {
                let entries = object.into_iter();
                let entries = entries.map(|(key, it)| (key, self.translate(it, values)));
                Value::Object(entries.collect())
            }
            (Value::Array(items), Schema::List(item)) => {
                let items = items.into_iter();
                items.map(|it| self.translate(it, item)).collect()
            }
            (Value::String(text), Schema::Text(legal)) => legal_text(text, legal).into(),
            (value, _) => value,
        }
    }

    fn object(&self, mut object: Map<String, Value>, schema: &Schema) -> Map<String, Value> {
        let mut bag = bag::take(&mut object);
        for pair in &self.0 {
            pair.rename(&mut object, schema);
        }
        let mut translated = Map::new();
        for (name, value) in object {
            match schema.field(&name).filter(|field| field.fits(&value)) {
                Some(field) => {
                    translated.insert(name, self.translate(value, field));
                }
                None => {
                    bag.insert(bag::key(&name), bag::text(&value));
                }
            }
        }
        let mut rest = Bag::new();
        for (key, text) in bag {
            let found = bag::field(schema, &key);
            let found = found.filter(|(name, _)| !translated.contains_key(*name));
            let found = found.and_then(|(name, it)| Some((name, it, bag::value(&text, it)?)));
            match found {
                Some((name, field, value)) => {
                    translated.insert(name.to_owned(), self.translate(value, field));
                }
                None => {
                    rest.insert(key, text);
                }
            }
        }
        bag::put(&mut translated, rest);
        translated
    }
}

impl Pair {
    /// Renames the field to the name that the schema has.
    fn rename(&self, object: &mut Map<String, Value>, schema: &Schema) {
        let is_missing = |name: &str| schema.field(name).is_none();
        if is_missing(self.id) && !is_missing(self.reference) {
            replace(object, self.id, self.reference, reference);
        } else if is_missing(self.reference) && !is_missing(self.id) {
            replace(object, self.reference, self.id, id);
        }
    }
}

/// Replaces a field, or all elements of it, if each can be expressed in the other form.
fn replace(
    object: &mut Map<String, Value>,
    from: &str,
    to: &str,
    convert: fn(&Value) -> Option<Value>,
) {
    if object.contains_key(to) {
        return;
    }
    let converted = match object.get(from) {
        Some(Value::Array(items)) => items.iter().map(convert).collect::<Option<Value>>(),
        Some(value) => convert(value),
        None => None,
    };
    if let Some(converted) = converted {
        object.remove(from);
        object.insert(to.to_owned(), converted);
    }
}

fn reference(id: &Value) -> Option<Value> {
    let id = id.as_str().filter(|id| !id.is_empty())?;
    Some(json!({ "armId": id }))
}

/// Returns the id of a reference. One to a Kubernetes object has none.
fn id(reference: &Value) -> Option<Value> {
    let id = reference.get("armId")?.as_str()?;
    let is_alone = reference.as_object().is_some_and(|it| it.len() == 1);
    (is_alone && !id.is_empty()).then(|| id.into())
}

/// Returns the legal value that differs in case only: names of values changed so between
/// versions, and Azure compares them without case.
fn legal_text(text: String, legal: &[String]) -> String {
    if legal.contains(&text) {
        return text;
    }
    let found = legal.iter().find(|it| it.eq_ignore_ascii_case(&text));
    found.cloned().unwrap_or(text)
}
