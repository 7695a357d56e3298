//! Defaulting and preparation of a definition before validation and storage.

use insula_kinds::{Object, Value, defaults};

use super::props::Props;

/// Fills in defaults: the singular name and the list kind, the conversion strategy, the port
/// of a webhook, and the stored versions.
pub fn default(object: &mut Object) {
    defaults::apply(super::kind(), object);
}

/// Prepares a new definition for storage: resets the status except for the stored version.
/// The caller prepares the metadata.
pub fn prepare_create(object: &mut Object) {
    object.remove("status");
    store_version(object);
}

/// Prepares an update for storage: keeps the old status and adds the storage version to it.
/// The caller prepares the metadata.
pub fn prepare_update(old: &Object, new: &mut Object) {
    put_back(old, new, "status");
    store_version(new);
}

/// Prepares an update of the status for storage: keeps everything else, except for metadata
/// that the server maintains.
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

/// Adds the storage version to the stored versions.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap_or_default()
    }

    fn definition(status: Value) -> Object {
        object(json!({
            "metadata": {"name": "foos.ex.io", "labels": {"a": "b"}},
            "spec": {"versions": [
                {"name": "v1", "storage": false},
                {"name": "v2", "storage": true},
            ]},
            "status": status,
        }))
    }

    #[test]
    fn defaults_are_filled_in() {
        let mut sent = object(json!({"spec": {
            "names": {"plural": "foos", "kind": "FooBar"},
            "versions": [{"name": "v1", "storage": true}],
        }}));
        default(&mut sent);
        let wanted = json!({
            "spec": {
                "names": {"plural": "foos", "kind": "FooBar", "singular": "foobar",
                          "listKind": "FooBarList"},
                "conversion": {"strategy": "None"},
                "versions": [{"name": "v1", "storage": true}],
            },
            "status": {"storedVersions": ["v1"]},
        });
        assert_eq!(Value::Object(sent), wanted);
        let service = json!({"name": "a", "namespace": "b"});
        let mut sent = object(json!({"spec": {"conversion": {
            "strategy": "Webhook", "webhook": {"clientConfig": {"service": service}},
        }}}));
        default(&mut sent);
        let service = &sent["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
        assert_eq!(service["port"], 443);
    }

    #[test]
    fn new_definition_has_only_stored_versions_in_its_status() {
        let mut sent = definition(json!({"conditions": [{}], "storedVersions": ["v1"]}));
        prepare_create(&mut sent);
        assert_eq!(sent["status"], json!({"storedVersions": ["v2"]}));
    }

    #[test]
    fn update_keeps_the_status_and_adds_the_storage_version() {
        let cases = [
            (json!(["v1"]), json!(["v1", "v2"])),
            (json!(["v2", "v1"]), json!(["v2", "v1"])),
            (Value::Null, json!(["v2"])),
        ];
        for (before, after) in cases {
            let old = definition(json!({"conditions": [1], "storedVersions": before}));
            let mut new = definition(json!({"conditions": [2], "storedVersions": ["v9"]}));
            prepare_update(&old, &mut new);
            let wanted = json!({"conditions": [1], "storedVersions": after});
            assert_eq!(new["status"], wanted);
        }
    }

    #[test]
    fn status_update_changes_nothing_else() {
        let old = definition(json!({"storedVersions": ["v1", "v2"]}));
        let mut new = object(json!({
            "metadata": {"name": "foos.ex.io", "labels": {"a": "c"}, "resourceVersion": "7",
                         "managedFields": [{"manager": "m"}]},
            "spec": {"versions": []},
            "status": {"storedVersions": ["v2"]},
        }));
        prepare_status(&old, &mut new);
        let wanted = json!({
            "metadata": {"name": "foos.ex.io", "labels": {"a": "b"}, "resourceVersion": "7",
                         "managedFields": [{"manager": "m"}]},
            "spec": old["spec"],
            "status": {"storedVersions": ["v2"]},
        });
        assert_eq!(Value::Object(new), wanted);
    }
}
