//! What is filled in and put back before a definition is judged and stored.

use insula_kinds::{Object, Value, defaults};

use super::props::Props;

/// Fills in what a client may leave out: the singular and the kind of lists, that objects
/// are not converted, the port of a webhook, and in which version objects are stored.
pub fn default(object: &mut Object) {
    defaults::apply(super::kind(), object);
}

/// Makes of what a client sent what is stored as a new definition: nothing is known of it
/// yet, but the version in which its objects will be stored. Metadata is the caller's.
pub fn prepare_create(object: &mut Object) {
    object.remove("status");
    store_version(object);
}

/// Makes of what a client sent what is stored in the place of `old`: the status stays, and
/// knows the version in which objects are stored from now on. Metadata is the caller's.
pub fn prepare_update(old: &Object, new: &mut Object) {
    put_back(old, new, "status");
    store_version(new);
}

/// Makes of what a client sent to the status what is stored in the place of `old`: nothing
/// else changes, but for what the server itself keeps account of in metadata.
pub fn prepare_status(old: &Object, new: &mut Object) {
    put_back(old, new, "spec");
    let sent = new.remove("metadata");
    put_back(old, new, "metadata");
    let Some(Value::Object(metadata)) = new.get_mut("metadata") else {
        return;
    };
    for name in ["managedFields", "resourceVersion"] {
        match Props::of(sent.as_ref()).get(name) {
            Some(value) => metadata.insert(name.to_owned(), value.clone()),
            None => metadata.remove(name),
        };
    }
}

fn put_back(old: &Object, new: &mut Object, part: &str) {
    match old.get(part) {
        Some(value) => new.insert(part.to_owned(), value.clone()),
        None => new.remove(part),
    };
}

/// The version in which objects are stored is one in which objects may be stored.
fn store_version(definition: &mut Object) {
    let stored = {
        let mut versions = Props::of(definition.get("spec")).children("versions");
        let stored = versions.find(|version| version.flag("storage"));
        stored.map(|version| version.text("name").to_owned())
    };
    let Some(stored) = stored else {
        return;
    };
    let status = definition.entry("status").or_insert(Value::Null);
    if !status.is_object() {
        *status = Value::Object(Object::new());
    }
    let known = &mut status["storedVersions"];
    match known {
        Value::Array(known) if known.iter().any(|name| name == stored.as_str()) => {}
        Value::Array(known) => known.push(stored.into()),
        other => *other = Value::Array(vec![stored.into()]),
    }
}
