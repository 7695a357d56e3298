//! Updates of managed fields in their text, against those of the list.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::{Object, Value, encode, kinds};
use insula_ownership::managers::{Subject, Version, Writer, forget, zero};
use insula_ownership::{Schema, Set};
use proptest::prelude::*;
use serde_json::json;

/// One write: who, in which second, and the values of the data.
#[derive(Clone, Debug)]
struct Write {
    manager: &'static str,
    applies: bool,
    second: u8,
    data: Vec<(&'static str, u8)>,
}

fn with<T>(act: impl FnOnce(Subject<'_>) -> T) -> T {
    let kind = kinds().get(kinds().find_by_kind("", "v1", "ConfigMap").unwrap());
    let (schema, reset) = (Schema::built_in(kind.type_id()), Set::default());
    let convert = |_: &Object, _: &str| -> Option<Version> { None };
    act(Subject {
        api_version: "v1",
        schema: &schema,
        reset: &reset,
        zero: &zero(kind),
        convert: &convert,
    })
}

fn config(data: &[(&str, u8)]) -> Object {
    let kind = kinds().get(kinds().find_by_kind("", "v1", "ConfigMap").unwrap());
    let data: Object = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value.to_string())))
        .collect();
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {"l": "1"}}, "data": data});
    let mut config = config.as_object().unwrap().clone();
    encode::complete(kind.type_id(), &mut config);
    config
}

/// The live object, which was stored with these entries.
fn live(config: &Object, entries: Option<&Value>) -> Object {
    let mut live = config.clone();
    live["metadata"]["uid"] = json!("u");
    if let Some(entries) = entries {
        live["metadata"]["managedFields"] = entries.clone();
    }
    live
}

/// Returns the entries after a write, and those of the text if it suffices.
fn entries_after(
    before: &Object,
    entries: Option<&Value>,
    write: &Write,
) -> (Object, Option<Value>, Option<Value>) {
    let now = format!("2026-01-02T03:04:{:02}Z", write.second);
    let writer = Writer {
        manager: write.manager,
        subresource: "",
        now: &now,
    };
    let mut new = config(&write.data);
    // Without entries the object is created.
    let old = match entries {
        None => with(|subject| subject.zero.clone()),
        Some(_) => live(before, entries),
    };
    if write.applies {
        let mut applied = with(|subject| subject.apply(&old, &new, writer, true)).unwrap();
        let entries = forget(&mut applied);
        return (applied, entries, None);
    }
    let (bare, unchanged) = (live(before, None), new.clone());
    with(|subject| subject.update(&old, &mut new, writer));
    let entries_of_list = forget(&mut new);
    let text = entries.and_then(|entries| {
        let known = entries.to_string();
        with(|subject| subject.update_text(&known, &bare, &unchanged, writer))
    });
    let text = text.map(|text| serde_json::from_str(&text).unwrap());
    (new, entries_of_list, text)
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let data =
        proptest::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), 0u8..3, 0..3);
    let manager = prop::sample::select(vec!["", "m", "n"]);
    let write = (manager, any::<bool>(), 0u8..4, data);
    let write = write.prop_map(|(manager, applies, second, data)| Write {
        manager,
        applies: applies && !manager.is_empty(),
        second,
        data: data.into_iter().collect(),
    });
    proptest::collection::vec(write, 1..8)
}

proptest! {
    #[test]
    fn text_has_the_entries_of_the_list(writes in writes()) {
        let (mut object, mut entries) = (config(&[]), None);
        for write in &writes {
            let (next, listed, text) = entries_after(&object, entries.as_ref(), write);
            if let Some(text) = text {
                prop_assert_eq!(Some(&text), listed.as_ref());
            }
            (object, entries) = (next, listed);
        }
    }
}

#[test]
fn text_suffices_only_for_owners_of_what_changes() {
    let write = |manager, second, data: &[(&'static str, u8)]| Write {
        manager,
        applies: false,
        second,
        data: data.to_vec(),
    };
    let (object, first, none) = entries_after(
        &config(&[]),
        None,
        &Write {
            applies: true,
            ..write("m", 0, &[("a", 1)])
        },
    );
    assert_eq!(
        (first.as_ref().unwrap().as_array().unwrap().len(), none),
        (1, None)
    );
    let (object, second, none) = entries_after(
        &object,
        first.as_ref(),
        &write("n", 1, &[("a", 1), ("b", 1)]),
    );
    assert_eq!(
        (second.as_ref().unwrap().as_array().unwrap().len(), none),
        (2, None)
    );
    for (next, suffices) in [
        (write("n", 2, &[("a", 1), ("b", 2)]), true),
        (write("n", 2, &[("a", 1), ("b", 1)]), true),
        (write("o", 2, &[("a", 1), ("b", 1)]), true),
        (write("o", 2, &[("a", 1), ("b", 2)]), false),
        (write("n", 2, &[("a", 2), ("b", 1)]), false),
        (write("n", 2, &[("a", 1)]), false),
        (write("n", 2, &[("a", 1), ("b", 1), ("c", 1)]), false),
        (write("m", 2, &[("a", 2), ("b", 1)]), false),
    ] {
        let (_, listed, text) = entries_after(&object, second.as_ref(), &next);
        assert_eq!(text.is_some(), suffices, "{next:?}");
        assert!(text.is_none() || text == listed, "{next:?}");
    }
}

#[test]
fn text_that_the_server_did_not_write_is_left_to_the_list() {
    let entry = r#"{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}"#;
    let updated = |known: &str| {
        let (old, new) = (config(&[("a", 1)]), config(&[("a", 2)]));
        let now = "2026-01-02T03:04:06Z";
        let writer = Writer {
            manager: "m",
            subresource: "",
            now,
        };
        with(|subject| subject.update_text(known, &old, &new, writer))
    };
    let expected = format!("[{}]", entry.replace(":05Z", ":06Z"));
    assert_eq!(updated(&format!("[{entry}]")), Some(expected));
    for known in [
        "".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        format!("[{entry},{entry}]"),
        format!(
            "[{}]",
            entry.replace(r#""time":"2026-01-02T03:04:05Z","#, "")
        ),
        format!("[{}]", entry.replace("Update", "Patch")),
        format!("[{}]", entry.replace("\"v1\"", "\"v2\"")),
        format!("[{}]", entry.replace("f:data", "fdata")),
        format!("[{}]", entry.replace("FieldsV1", "FieldsV2")),
        format!("[{}]", entry.replace(":05Z", ":05")),
    ] {
        assert_eq!(updated(&known), None, "{known}");
    }
}
