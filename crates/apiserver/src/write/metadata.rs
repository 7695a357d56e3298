//! Server-owned metadata: filled in where it is missing, rejected where it differs.

use insula_kinds::{Kind, Object, Value};

use crate::registry::Address;
use crate::status::{Result, StatusError};

/// Metadata fields that are always reset on create.
pub const SERVER_OWNED_FIELDS: &[&str] = &[
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
];

/// Returns the metadata of an object, inserting it if it is missing.
pub fn of(object: &mut Object) -> &mut Object {
    // The entry of a map needs a name of its own, which nearly always is there already.
    if !object.get("metadata").is_some_and(Value::is_object) {
        object.insert("metadata".to_owned(), Value::Object(Object::new()));
    }
    object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .expect("inserted as an object above")
}

/// Returns a non-empty text field of the metadata.
pub fn text<'a>(object: &'a Object, member: &str) -> Option<&'a str> {
    let text = object.get("metadata")?.get(member)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// Returns an annotation.
pub fn annotation<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(name)?.as_str()
}

/// Fills in `namespace`, `tenant` and `selfLink`, and rejects different ones.
pub fn set_location(object: &mut Object, address: &Address) -> Result<()> {
    let metadata = of(object);
    match &address.namespace {
        None => {
            metadata.remove("namespace");
        }
        Some(namespace) => {
            let why = "the namespace of the provided object does not match the namespace sent on \
                       the request";
            fill_or_match(metadata, "namespace", namespace, why)?;
        }
    }
    match address.space.tenant() {
        Some(tenant) => {
            let why = "the tenant of the provided object does not match the tenant sent on the \
                       request";
            fill_or_match(metadata, "tenant", tenant.as_str(), why)?;
        }
        // `system` is accepted as the name of the system space, and not stored.
        None => match metadata.remove("tenant") {
            Some(Value::String(text)) if !text.is_empty() && text != "system" => {
                let why = "the tenant of the provided object does not match the tenant sent on \
                           the request";
                return Err(StatusError::bad_request(why));
            }
            _ => {}
        },
    }
    let link = address.self_link();
    // An object may carry the path of another version of its kind: of the one that it is sent in,
    // or of the one that it was stored in before the storage version changed.
    let given = metadata.get("selfLink").and_then(Value::as_str);
    if given == Some(&*link) {
        return Ok(());
    }
    if given.is_some_and(|given| !given.is_empty() && !is_same_but_version(given, &link)) {
        let why = "the selfLink of the provided object does not match the path of the object";
        return Err(StatusError::bad_request(why));
    }
    metadata.insert("selfLink".to_owned(), link.into());
    Ok(())
}

/// Returns whether two paths of objects differ in the version at most.
fn is_same_but_version(one: &str, other: &str) -> bool {
    let parts = |path: &str| {
        let position = if path.starts_with("/api/") { 2 } else { 3 };
        let mut parts: Vec<_> = path.splitn(position + 2, '/').map(str::to_owned).collect();
        // A path without a rest has no version either.
        if parts.len() == position + 2 {
            parts.remove(position);
        }
        parts
    };
    parts(one) == parts(other)
}

fn fill_or_match(metadata: &mut Object, member: &str, is: &str, why: &str) -> Result<()> {
    let given = metadata.get(member).and_then(Value::as_str).unwrap_or("");
    if !given.is_empty() && given != is {
        return Err(StatusError::bad_request(why));
    }
    if given.is_empty() {
        metadata.insert(member.to_owned(), is.into());
    }
    Ok(())
}

/// Returns the finalizers of an object.
pub fn finalizers(object: &Object) -> impl Iterator<Item = &str> {
    let list = object
        .get("metadata")
        .and_then(|metadata| metadata.get("finalizers"));
    strings(list)
}

/// Whether `spec.finalizers` delays deletion: in namespaces and tenants it stands for their
/// content, in other kinds it is an ordinary field.
pub fn has_spec_finalizers(kind: &Kind) -> bool {
    kind.group.is_empty() && matches!(kind.kind.as_str(), "Namespace" | "Tenant")
}

/// Returns the finalizers in the spec of a namespace or a tenant.
pub fn spec_finalizers<'a>(kind: &Kind, object: &'a Object) -> impl Iterator<Item = &'a str> {
    let spec = object.get("spec").filter(|_| has_spec_finalizers(kind));
    strings(spec.and_then(|spec| spec.get("finalizers")))
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str)
}

/// Restores server-owned metadata that a change left out.
pub fn restore(new: &mut Object, address: &Address, old: &Object) -> Result<()> {
    set_location(new, address)?;
    let kept = of(new);
    if kept
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or("")
        .is_empty()
    {
        kept.insert("name".to_owned(), address.name.as_str().into());
    }
    if let Some(was) = old.get("metadata").and_then(Value::as_object) {
        for member in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            if let (false, Some(value)) = (kept.contains_key(member), was.get(member)) {
                kept.insert(member.to_owned(), value.clone());
            }
        }
    }
    Ok(())
}
