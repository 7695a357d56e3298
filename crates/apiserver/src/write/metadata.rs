//! Server-owned metadata: filled in where it is missing, rejected or corrected where it differs.

use insula_core::{SYSTEM, Space, TenantName};
use insula_kinds::{Kind, Object, Value};

use crate::pipeline::authorize::Caller;
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

/// Fills in `namespace`, `tenant` and `selfLink`. Another namespace is rejected. Another tenant is
/// dropped with a warning, so that an object which was read in one space can be created in
/// another, and a link is ignored, as Kubernetes does.
pub fn set_location(
    object: &mut Object,
    address: &Address,
    caller: Option<Caller<'_>>,
) -> Result<()> {
    if let (Some(warning), Some(caller)) = (drop_foreign_tenant(object, &address.space), caller) {
        caller.context.warn([warning]);
    }
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
        Some(tenant) if text_of(metadata, "tenant").is_empty() => {
            metadata.insert("tenant".to_owned(), tenant.as_str().into());
        }
        Some(_) => {}
        None => drop(metadata.remove("tenant")),
    }
    let link = address.self_link();
    if text_of(metadata, "selfLink") != link {
        metadata.insert("selfLink".to_owned(), link.into());
    }
    Ok(())
}

/// Removes the tenant from an object if it is not that of the space, and returns a warning. It
/// does not say whether that tenant exists.
fn drop_foreign_tenant(object: &mut Object, space: &Space) -> Option<String> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let given = text_of(metadata, "tenant");
    // `system` is accepted as the name of the system space, and not stored.
    if given.is_empty() || given == space.tenant().map_or(SYSTEM, TenantName::as_str) {
        return None;
    }
    let dropped = insula_gotext::quote(given);
    metadata.remove("tenant");
    Some(match space.tenant() {
        Some(tenant) => format!(
            "metadata.tenant: dropped {dropped}, since the object belongs to tenant \"{tenant}\""
        ),
        None => {
            format!("metadata.tenant: dropped {dropped}, since the object belongs to no tenant")
        }
    })
}

/// Returns a text field of metadata, empty if there is none.
fn text_of<'a>(metadata: &'a Object, member: &str) -> &'a str {
    metadata.get(member).and_then(Value::as_str).unwrap_or("")
}

fn fill_or_match(metadata: &mut Object, member: &str, is: &str, why: &str) -> Result<()> {
    let given = text_of(metadata, member);
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
pub fn restore(
    new: &mut Object,
    address: &Address,
    old: &Object,
    caller: Option<Caller<'_>>,
) -> Result<()> {
    set_location(new, address, caller)?;
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
