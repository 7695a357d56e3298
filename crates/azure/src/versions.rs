//! The conversion between the versions of a kind.
//!
//! Fields are converted by name. A field that the other version does not have is kept: in the
//! property bags of storage versions, as Azure Service Operator has them, and in an annotation of
//! API versions, which have no property bags. Which fields a version has is in the schemas of the
//! installed definitions, so that any kind is converted.
//!
//! `spec.originalVersion` of storage versions is the API version in which the object was last
//! written; it decides the api-version of requests to Azure. Conversions between storage versions
//! keep it. An operator that does not want to change it writes in a storage version.

mod bag;
mod leftovers;
mod schema;
mod translate;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use insula_operator::webhook::Router;
use serde_json::{Map, Value};

pub use leftovers::ANNOTATION;

use schema::{Pool, Schema, Shared};
use translate::Translator;

/// The path of the conversion webhook.
pub const PATH: &str = "/convert";

/// The parts of an object that versions differ in.
const PARTS: [&str; 2] = ["spec", "status"];

/// The end of the names of storage versions.
const STORAGE: &str = "storage";

/// The field of storage versions with the API version in which an object was written.
const ORIGINAL_VERSION: &str = "originalVersion";

/// The installed definitions.
#[derive(Debug, Default)]
pub struct Definitions(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    pool: Pool,
    kinds: BTreeMap<(String, String), Arc<Kind>>,
}

/// A kind with the schemas of its versions.
#[derive(Debug)]
struct Kind {
    translator: Translator,
    versions: BTreeMap<String, Shared>,
}

impl Definitions {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a CustomResourceDefinition (`apiextensions.k8s.io/v1`).
    ///
    /// # Errors
    ///
    /// If it has no group, kind or versions. The error is a message.
    pub fn insert(&self, definition: &Value) -> Result<(), String> {
        let spec = &definition["spec"];
        let (Some(group), Some(kind), Some(versions)) = (
            spec["group"].as_str(),
            spec["names"]["kind"].as_str(),
            spec["versions"].as_array(),
        ) else {
            return Err("the definition has no group, kind or versions".to_owned());
        };
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let versions = versions.iter().filter_map(|version| {
            let schema = inner.pool.read(&version["schema"]["openAPIV3Schema"]);
            Some((version["name"].as_str()?.to_owned(), schema))
        });
        let versions: BTreeMap<_, _> = versions.collect();
        let read = Kind {
            versions: with_storage_schemas(&mut inner.pool, versions),
            translator: Translator::new(group, kind),
        };
        let key = (group.to_owned(), kind.to_owned());
        let replaced = inner.kinds.insert(key, Arc::new(read));
        if replaced.is_some() {
            drop(replaced);
            inner.pool.shrink();
        }
        Ok(())
    }

    /// Removes a kind.
    pub fn remove(&self, group: &str, kind: &str) {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let removed = inner.kinds.remove(&(group.to_owned(), kind.to_owned()));
        drop(removed);
        inner.pool.shrink();
    }

    /// Returns whether a kind is installed in a version.
    pub fn contains(&self, group: &str, kind: &str, version: &str) -> bool {
        let kind = self.kind(group, kind);
        kind.is_some_and(|kind| kind.versions.contains_key(version))
    }

    /// Converts an object to another `apiVersion` of its group.
    ///
    /// # Errors
    ///
    /// If the kind or one of the versions is not installed. The error is a message.
    pub fn convert(&self, object: Value, desired: &str) -> Result<Value, String> {
        let Value::Object(mut object) = object else {
            return Err("it is not an object".to_owned());
        };
        let given = object.get("apiVersion").and_then(Value::as_str);
        let (group, from) = split(given.unwrap_or_default())?;
        let (desired_group, to) = split(desired)?;
        if group != desired_group {
            return Err(format!("{desired:?} is no version of {group}"));
        }
        let name = object.get("kind").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let kind = self.kind(group, name);
        let kind = kind.ok_or_else(|| format!("the kind {name:?} of {group} is not installed"))?;
        let (from_schema, to_schema) = (kind.version(from)?, kind.version(to)?);
        if from != to {
            let from = from.to_owned();
            kind.convert(&mut object, (&from, from_schema), (to, to_schema));
            object.insert("apiVersion".to_owned(), desired.into());
        }
        Ok(Value::Object(object))
    }

    fn kind(&self, group: &str, kind: &str) -> Option<Arc<Kind>> {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let key = (group.to_owned(), kind.to_owned());
        inner.kinds.get(&key).cloned()
    }
}

/// Replaces the schemas of storage versions that allow any fields by those of their API versions
/// with property bags, so that objects are stored as Azure Service Operator stores them.
fn with_storage_schemas(
    pool: &mut Pool,
    mut versions: BTreeMap<String, Shared>,
) -> BTreeMap<String, Shared> {
    let storage = versions.iter().filter_map(|(name, schema)| {
        let api = versions.get(name.strip_suffix(STORAGE)?)?;
        let is_any = schema.field("spec").is_some_and(|it| *it == Schema::Any);
        is_any.then(|| (name.clone(), api.clone()))
    });
    for (name, api) in storage.collect::<Vec<_>>() {
        let any = Schema::Any;
        let part = |part: &str| api.field(part).unwrap_or(&any);
        let spec = pool.with_bags(part("spec"));
        let status = pool.with_bags(part("status"));
        let schema = pool.object([("spec", spec), ("status", status)]);
        versions.insert(name, schema);
    }
    versions
}

/// Adds the conversion of the installed definitions to a router.
pub fn route(router: Router, definitions: Arc<Definitions>) -> Router {
    router.conversion(PATH, move |object, desired| {
        definitions.convert(object, desired)
    })
}

impl Kind {
    fn version(&self, name: &str) -> Result<&Schema, String> {
        let schema = self.versions.get(name);
        let schema = schema.map(|schema| &**schema);
        schema.ok_or_else(|| {
            let names: Vec<_> = self.versions.keys().map(String::as_str).collect();
            format!(
                "the version {name:?} is not installed; installed are {}",
                names.join(", ")
            )
        })
    }

    fn convert(
        &self,
        object: &mut Map<String, Value>,
        (from, from_schema): (&str, &Schema),
        (to, to_schema): (&str, &Schema),
    ) {
        let original = original_version(object, from);
        let leftovers = leftovers::take(object);
        let mut content = Value::Object(take_parts(object));
        leftovers::restore(&mut content, from_schema, leftovers);
        let mut leftovers = Vec::new();
        if let Value::Object(content) = &mut content {
            for (part, value) in content.iter_mut() {
                if let Some(schema) = to_schema.field(part) {
                    *value = self.translator.translate(value.take(), schema);
                }
            }
            if let Some(Value::Object(spec)) = content.get_mut("spec") {
                set_original_version(spec, original.filter(|_| to.ends_with(STORAGE)));
            }
        }
        leftovers.extend(leftovers::extract(&mut content, Some(to_schema)));
        leftovers::keep(object, &leftovers);
        if let Value::Object(mut content) = content {
            object.append(&mut content);
        }
    }
}

/// Returns the API version in which an object was last written: its own, or the one that a storage
/// version has recorded.
fn original_version(object: &Map<String, Value>, version: &str) -> Option<String> {
    if !version.ends_with(STORAGE) {
        return Some(version.to_owned());
    }
    let recorded = object.get("spec")?.get(ORIGINAL_VERSION)?.as_str()?;
    Some(recorded.to_owned())
}

/// Sets the original version. API versions have none: the version itself says it.
fn set_original_version(spec: &mut Map<String, Value>, original: Option<String>) {
    let mut bag = bag::take(spec);
    bag.remove(&bag::key(ORIGINAL_VERSION));
    bag::put(spec, bag);
    spec.remove(ORIGINAL_VERSION);
    if let Some(original) = original {
        spec.insert(ORIGINAL_VERSION.to_owned(), original.into());
    }
}

fn take_parts(object: &mut Map<String, Value>) -> Map<String, Value> {
    let parts = PARTS.into_iter();
    parts.filter_map(|part| object.remove_entry(part)).collect()
}

/// Returns the group and the version of an `apiVersion`.
fn split(api_version: &str) -> Result<(&str, &str), String> {
    let parts = api_version.split_once('/');
    parts.ok_or_else(|| format!("{api_version:?} has no group"))
}

#[cfg(test)]
mod tests;
