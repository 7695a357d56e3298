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
    fn what_a_client_leaves_out_is_filled_in() {
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
    fn a_new_definition_has_no_status_but_the_version_that_is_stored() {
        let mut sent = definition(json!({"conditions": [{}], "storedVersions": ["v1"]}));
        prepare_create(&mut sent);
        assert_eq!(sent["status"], json!({"storedVersions": ["v2"]}));
    }

    #[test]
    fn an_update_keeps_the_status_and_adds_the_version_that_is_stored() {
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
    fn a_write_to_the_status_changes_nothing_else() {
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
