//! Bodies of PUT requests.

use serde_json::{Map, Number, Value};

use super::needs::{KeyReference, Lookup, MappingError, Reference};
use crate::table::{Place, Rule, ShapeRef};

/// Fields of a specification that are never sent.
const OWN_FIELDS: [&str; 6] = [
    "azureName",
    "azureNameFromConfig",
    "owner",
    "operatorSpec",
    "originalVersion",
    "$propertyBag",
];

/// Returns the body of a specification without its name.
pub(super) fn root(
    spec: &Map<String, Value>,
    shape: ShapeRef<'_>,
    lookup: &mut dyn Lookup,
) -> Result<Map<String, Value>, MappingError> {
    let mut writer = Writer {
        lookup,
        path: vec!["spec".to_owned()],
    };
    writer.object(spec, shape, &OWN_FIELDS)
}

struct Writer<'a> {
    lookup: &'a mut dyn Lookup,
    path: Vec<String>,
}

/// A field of ARM: its name and, unless it is left out, its value.
type Field<'a> = (&'a str, Option<Value>);

impl Writer<'_> {
    fn object(
        &mut self,
        object: &Map<String, Value>,
        shape: ShapeRef<'_>,
        skipped: &[&str],
    ) -> Result<Map<String, Value>, MappingError> {
        let mut body = Map::new();
        for (name, value) in object {
            if value.is_null() || skipped.contains(&name.as_str()) {
                continue;
            }
            self.path.push(name.clone());
            self.field(name, value, shape, &mut body)?;
            self.path.pop();
        }
        add_empty_collections(shape, &mut body);
        Ok(body)
    }

    fn field(
        &mut self,
        name: &str,
        value: &Value,
        shape: ShapeRef<'_>,
        body: &mut Map<String, Value>,
    ) -> Result<(), MappingError> {
        let rule = shape.rule(name);
        if let Rule::Omitted = rule {
            return Ok(());
        }
        let union = shape.one_of();
        let is_variant = union.is_some_and(|it| it.variants.contains_key(name));
        let (name, mapped) = self.mapped(name, value, rule)?;
        if is_variant {
            // The member of a union stands in the place of the union.
            if let Some(Value::Object(member)) = mapped {
                body.extend(member);
            }
            return Ok(());
        }
        // A field that is set creates its parent, even if the field itself is left out.
        let Some(parent) = parent(body, shape.place(self.name())) else {
            return Ok(());
        };
        if let Some(mapped) = mapped
            && parent.insert(name.to_owned(), mapped).is_some()
        {
            return Err(self.malformed("the value is given twice, here and in another field"));
        }
        Ok(())
    }

    /// Returns the name of the current field in the custom resource.
    fn name(&self) -> &str {
        self.path.last().map(String::as_str).unwrap_or_default()
    }

    fn mapped<'a>(
        &mut self,
        name: &'a str,
        value: &Value,
        rule: Rule<'a>,
    ) -> Result<Field<'a>, MappingError> {
        Ok(match rule {
            Rule::Plain | Rule::KeepEmptyList | Rule::KeepEmptyMap => (name, plain(value)),
            Rule::Object(shape) => (name, self.shaped(value, shape)?),
            Rule::Map(shape) => (name, self.map(value, shape)?),
            Rule::Json => (name, Some(value.clone())),
            Rule::Reference(to) | Rule::WellKnown(to) => {
                (to, self.each(value, "armId", Self::reference)?)
            }
            Rule::Identities => (name, self.identities(value)?),
            Rule::Secret(to) => (to, self.each(value, "key", Self::secret)?),
            Rule::SecretMap(to) => (to, self.each(value, "name", Self::secret_map)?),
            Rule::SecretCollection(to) => (to, self.each(value, "name", Self::secret_list)?),
            Rule::Config(to) => (to, self.each(value, "key", Self::config)?),
            Rule::Renamed(to, None) => (to, plain(value)),
            Rule::Renamed(to, Some(shape)) => (to, self.shaped(value, shape)?),
            Rule::Omitted => (name, None),
        })
    }

    /// Maps an object, or each object of a list.
    fn shaped(
        &mut self,
        value: &Value,
        shape: ShapeRef<'_>,
    ) -> Result<Option<Value>, MappingError> {
        match value {
            Value::Object(object) => Ok(Some(self.object(object, shape, &[])?.into())),
            Value::Array(items) if items.is_empty() => Ok(None),
            Value::Array(items) => {
                let mut mapped = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    self.path.push(index.to_string());
                    mapped.push(self.shaped(item, shape)?.unwrap_or_default());
                    self.path.pop();
                }
                Ok(Some(mapped.into()))
            }
            other => Ok(plain(other)),
        }
    }

    fn map(
        &mut self,
        value: &Value,
        shape: Option<ShapeRef<'_>>,
    ) -> Result<Option<Value>, MappingError> {
        let Value::Object(entries) = value else {
            return Ok(plain(value));
        };
        let mut mapped = Map::new();
        for (key, value) in entries {
            self.path.push(key.clone());
            let value = match shape {
                Some(shape) => self.shaped(value, shape)?,
                None => Some(plain(value).unwrap_or_else(|| value.clone())),
            };
            self.path.pop();
            mapped.insert(key.clone(), value.unwrap_or_else(|| Value::Array(vec![])));
        }
        Ok((!mapped.is_empty()).then(|| mapped.into()))
    }

    /// Maps a reference, each of a list, or each of an object with free keys. `member` is one that
    /// a reference may have and that tells it from such an object.
    fn each(
        &mut self,
        value: &Value,
        member: &str,
        map: fn(&mut Self, &Value) -> Result<Value, MappingError>,
    ) -> Result<Option<Value>, MappingError> {
        match value {
            Value::Array(items) if items.is_empty() => Ok(None),
            Value::Array(items) => {
                let items = items.iter();
                let items: Result<Vec<_>, _> = items.map(|item| map(self, item)).collect();
                Ok(Some(items?.into()))
            }
            Value::Object(entries) if is_map(entries, member) => {
                let mut mapped = Map::new();
                for (key, value) in entries {
                    mapped.insert(key.clone(), map(self, value)?);
                }
                Ok(Some(mapped.into()))
            }
            reference => map(self, reference).map(Some),
        }
    }

    fn reference(&mut self, value: &Value) -> Result<Value, MappingError> {
        if let Some(name) = value.get("wellKnownName").and_then(Value::as_str)
            && !name.is_empty()
        {
            return Ok(name.into());
        }
        match Reference::parse(value).map_err(|message| self.malformed(message))? {
            Reference::Id(id) => Ok(id.into()),
            Reference::Object(reference) => {
                let path = self.path.join(".");
                self.lookup.id(reference, &path).map(Value::from)
            }
        }
    }

    /// Returns the ids of identities as keys.
    fn identities(&mut self, value: &Value) -> Result<Option<Value>, MappingError> {
        let mut identities = Map::new();
        for item in value.as_array().into_iter().flatten() {
            let reference = item.get("reference").unwrap_or(&Value::Null);
            if let Value::String(id) = self.reference(reference)? {
                identities.insert(id, Map::new().into());
            }
        }
        Ok((!identities.is_empty()).then(|| identities.into()))
    }

    fn secret(&mut self, value: &Value) -> Result<Value, MappingError> {
        let reference = self.key_reference(value)?;
        let path = self.path.join(".");
        self.lookup.secret(reference, &path).map(Value::from)
    }

    fn config(&mut self, value: &Value) -> Result<Value, MappingError> {
        let reference = self.key_reference(value)?;
        let path = self.path.join(".");
        self.lookup.config_map(reference, &path).map(Value::from)
    }

    fn secret_map(&mut self, value: &Value) -> Result<Value, MappingError> {
        let texts = self.whole_secret(value)?.into_iter();
        let entries = texts.map(|(key, text)| (key, text.into()));
        Ok(Value::Object(entries.collect()))
    }

    fn secret_list(&mut self, value: &Value) -> Result<Value, MappingError> {
        let texts = self.whole_secret(value)?.into_values();
        Ok(texts.map(Value::from).collect())
    }

    fn whole_secret(&mut self, value: &Value) -> Result<super::needs::Texts, MappingError> {
        let name = value.get("name").and_then(Value::as_str);
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| self.malformed("a reference to a Secret needs a name"))?;
        let path = self.path.join(".");
        self.lookup.whole_secret(name, &path)
    }

    fn key_reference(&self, value: &Value) -> Result<KeyReference, MappingError> {
        key_reference(value).ok_or_else(|| self.malformed("the reference needs a name and a key"))
    }

    fn malformed(&self, message: &'static str) -> MappingError {
        let path = self.path.join(".");
        MappingError::Malformed { path, message }
    }
}

/// Parses `{name, key}`.
pub(super) fn key_reference(value: &Value) -> Option<KeyReference> {
    let member = |name: &str| {
        let text = value.get(name)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    Some(KeyReference {
        name: member("name")?,
        key: member("key")?,
    })
}

/// Returns whether an object has free keys and references as values.
fn is_map(entries: &Map<String, Value>, member: &str) -> bool {
    !entries.contains_key(member) && entries.values().all(Value::is_object) && !entries.is_empty()
}

/// Returns the object that a field stands in.
fn parent<'a>(
    body: &'a mut Map<String, Value>,
    place: Place<'_>,
) -> Option<&'a mut Map<String, Value>> {
    match place {
        Place::Beside => Some(body),
        Place::Under(member) => {
            let member = body.entry(member).or_insert_with(|| Map::new().into());
            member.as_object_mut()
        }
    }
}

/// Adds the collections that are sent although they are absent, if their parent is sent.
fn add_empty_collections(shape: ShapeRef<'_>, body: &mut Map<String, Value>) {
    let empty = shape.fields().filter_map(|(name, rule)| match rule {
        Rule::KeepEmptyList => Some((name, Value::Array(vec![]))),
        Rule::KeepEmptyMap => Some((name, Map::new().into())),
        _ => None,
    });
    let nulls = shape.nulls().map(|name| (name, Value::Null));
    for (name, value) in empty.chain(nulls) {
        let to = match shape.rule(name) {
            Rule::Reference(to) | Rule::Renamed(to, _) => to,
            _ => name,
        };
        let parent = match shape.place(name) {
            Place::Beside => Some(&mut *body),
            Place::Under(member) => body.get_mut(member).and_then(Value::as_object_mut),
        };
        if let Some(parent) = parent {
            parent.entry(to).or_insert(value);
        }
    }
}

/// Returns a value without rules, or none for an empty list.
fn plain(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Array(items) if items.is_empty() => return None,
        Value::Array(items) => items
            .iter()
            .map(|item| plain(item).unwrap_or_else(|| item.clone()))
            .collect(),
        Value::Object(object) => {
            let fields = object.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.filter_map(|(name, value)| Some((name.clone(), plain(value)?)));
            Value::Object(fields.collect())
        }
        Value::Number(number) => Value::Number(whole(number)),
        other => other.clone(),
    })
}

/// Returns a whole number without a fraction, as Go writes it.
fn whole(number: &Number) -> Number {
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < MAX_EXACT => {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
            let whole = float as i64;
            whole.into()
        }
        _ => number.clone(),
    }
}
