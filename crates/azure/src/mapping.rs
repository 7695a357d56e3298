//! Custom resources to bodies of ARM requests, and responses to statuses.
//!
//! Everything here is pure. A body may need other objects: [`needs`] lists them, the caller reads
//! them, and [`body`] takes their contents.
//!
//! | module | content |
//! |---|---|
//! | [`needs`](mod@needs) | references to other objects, and their contents |
//! | `body`, `status` | the two directions |
//! | [`export`] | values that are written into Secrets and ConfigMaps |
//! | [`import`](mod@import) | custom resources for resources that exist in Azure |

mod body;
pub mod export;
pub mod import;
pub mod needs;
mod status;

use serde_json::{Map, Value};

pub use import::import;
pub use needs::{MappingError, Needs, ObjectReference, Reference, Resolved};

use crate::table::{Kind, Owner, Version};
use needs::{Contents, Lookup};

/// Returns the other objects that the body of an object needs.
///
/// # Errors
///
/// If a reference is malformed, or there are too many.
pub fn needs(kind: &Kind, version: &Version, object: &Value) -> Result<Needs, MappingError> {
    let mut needs = Needs::default();
    write(kind, version, object, &mut needs)?;
    Ok(needs)
}

/// Returns the body of the PUT request for an object, which has the given version.
///
/// # Errors
///
/// If a reference is malformed, another object or its key is missing, or values are too large.
pub fn body(
    kind: &Kind,
    version: &Version,
    object: &Value,
    resolved: &Resolved,
) -> Result<Value, MappingError> {
    write(kind, version, object, &mut Contents::new(resolved)).map(Value::Object)
}

fn write(
    kind: &Kind,
    version: &Version,
    object: &Value,
    lookup: &mut dyn Lookup,
) -> Result<Map<String, Value>, MappingError> {
    let empty = Map::new();
    let spec = object["spec"].as_object().unwrap_or(&empty);
    let mut body = body::root(spec, kind.spec(version), lookup)?;
    let name = looked_up_name(kind, object, lookup)?;
    body.insert("name".to_owned(), name.into());
    Ok(body)
}

/// Returns the status that a response to GET has, without conditions.
pub fn status(kind: &Kind, version: &Version, response: &Value) -> Map<String, Value> {
    let fields = response.as_object();
    fields.map_or_else(Map::new, |it| status::root(it, kind.status(version)))
}

/// Returns the other objects that the name in Azure needs.
///
/// # Errors
///
/// If there is no name.
pub fn name_needs(kind: &Kind, object: &Value) -> Result<Needs, MappingError> {
    let mut needs = Needs::default();
    looked_up_name(kind, object, &mut needs)?;
    Ok(needs)
}

/// Returns the name in Azure.
///
/// # Errors
///
/// If there is none, or the ConfigMap with it is missing.
pub fn azure_name(
    kind: &Kind,
    object: &Value,
    resolved: &Resolved,
) -> Result<String, MappingError> {
    looked_up_name(kind, object, &mut Contents::new(resolved))
}

fn looked_up_name(
    kind: &Kind,
    object: &Value,
    lookup: &mut dyn Lookup,
) -> Result<String, MappingError> {
    if let Some(name) = kind.fixed_name() {
        return Ok(name.to_owned());
    }
    let spec = &object["spec"];
    let malformed = |path: &str, message| MappingError::Malformed {
        path: path.to_owned(),
        message,
    };
    match spec["azureName"].as_str() {
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        _ if spec["azureNameFromConfig"].is_object() => {
            let path = "spec.azureNameFromConfig";
            let reference = body::key_reference(&spec["azureNameFromConfig"]);
            let message = "the reference needs a name and a key";
            let reference = reference.ok_or_else(|| malformed(path, message))?;
            lookup.config_map(reference, path)
        }
        _ => Err(malformed(
            "spec.azureName",
            "the name in Azure is empty: the webhook sets it",
        )),
    }
}

/// Returns the owner of an object.
///
/// # Errors
///
/// If `spec.owner` is missing or malformed.
pub fn owner(kind: &Kind, object: &Value) -> Result<Option<Reference>, MappingError> {
    let malformed = |message| MappingError::Malformed {
        path: "spec.owner".to_owned(),
        message,
    };
    let given = &object["spec"]["owner"];
    match kind.owner() {
        Owner::None => Ok(None),
        _ if !given.is_object() => Err(malformed("the owner is missing")),
        Owner::Any => Reference::parse(given).map(Some).map_err(malformed),
        Owner::Kind { group, kind } => {
            let member = |name: &str| given[name].as_str().unwrap_or_default();
            match (member("name"), member("armId")) {
                ("", "") => Err(malformed("the owner needs either name or armId")),
                (name, "") => Ok(Some(Reference::Object(ObjectReference {
                    group: group.clone(),
                    kind: kind.clone(),
                    name: name.to_owned(),
                }))),
                ("", id) => Ok(Some(Reference::Id(id.to_owned()))),
                _ => Err(malformed("the owner has either name or armId")),
            }
        }
    }
}

#[cfg(test)]
mod tests;
