//! Protobuf matches the bytes and JSON that Go produces for our own objects.
//!
//! Each line of `data/protobuf/vectors.jsonl` is an object as Go's structs marshal it: in
//! an envelope, and as JSON after it has been read back from its message.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::protobuf::{self, Error, ListFrame};
use insula_kinds::{Form, Object, TypeId, Value, types};
use proptest::prelude::*;
use serde_json::json;

struct Vector {
    name: String,
    of: TypeId,
    api_version: String,
    kind: String,
    sealed: Vec<u8>,
    tree: Object,
}

#[test]
fn go_messages_decode_to_go_json() {
    for vector in vectors() {
        let envelope = protobuf::open(&vector.sealed).unwrap();
        assert_eq!(envelope.api_version, vector.api_version);
        assert_eq!(envelope.kind, vector.kind);
        let tree = protobuf::decode(vector.of, envelope.raw).unwrap();
        assert_eq!(tree, vector.tree, "{}", vector.name);
    }
}

#[test]
fn objects_encode_to_go_bytes() {
    for vector in vectors() {
        let mut raw = Vec::new();
        protobuf::encode(vector.of, &vector.tree, &mut raw);
        let sealed = protobuf::seal(&vector.api_version, &vector.kind, &raw);
        assert_eq!(hex(&sealed), hex(&vector.sealed), "{}", vector.name);
    }
}

#[test]
fn list_of_encoded_items_matches_go_bytes() {
    let vectors = vectors();
    let list = vectors
        .iter()
        .find(|vector| vector.kind == "ConfigMapList")
        .unwrap();
    let item = types().find("api.core.v1.ConfigMap").unwrap();
    let items = list.tree["items"].as_array().unwrap().iter().map(|object| {
        let mut raw = Vec::new();
        protobuf::encode(item, object.as_object().unwrap(), &mut raw);
        raw
    });
    let items: Vec<_> = items.collect();
    let meta = list.tree["metadata"].as_object().unwrap();
    let length = |item: &Vec<u8>| ListFrame::item_length(item.len());
    let length = items.iter().map(length).sum();
    let frame = ListFrame::new(&list.api_version, &list.kind, meta, length);
    let mut made = frame.head;
    for item in &items {
        protobuf::put_item(item.len(), |out| out.extend_from_slice(item), &mut made);
    }
    made.extend_from_slice(&frame.tail);
    assert_eq!(hex(&made), hex(&list.sealed));
}

#[test]
fn go_nil_and_empty_decode_to_absent() {
    let config_map = types().find("api.core.v1.ConfigMap").unwrap();
    let encoded = |tree: Value| {
        let mut raw = Vec::new();
        protobuf::encode(config_map, tree.as_object().unwrap(), &mut raw);
        hex(&raw)
    };
    let absent = encoded(json!({}));
    assert_eq!(encoded(json!({"data": null, "immutable": null})), absent);
    assert_eq!(encoded(json!({"data": {}, "metadata": {}})), absent);
    assert_ne!(encoded(json!({"immutable": false})), absent);
}

#[test]
fn unknown_fields_are_skipped() {
    let config_map = types().find("api.core.v1.ConfigMap").unwrap();
    // Field 99 as a varint, as bytes and as 4 and 8 bytes, then `immutable`.
    let message = b"\x98\x06\x01\x9a\x06\x02xy\x9d\x06abcd\x99\x06abcdefgh\x20\x01";
    let tree = protobuf::decode(config_map, message).unwrap();
    assert_eq!(
        Value::from(tree),
        json!({"immutable": true, "metadata": {}})
    );
}

#[test]
fn repeated_parts_of_a_message_are_merged() {
    let config_map = types().find("api.core.v1.ConfigMap").unwrap();
    // The name comes first, the namespace later, and the name is taken back.
    let message = b"\x0a\x03\x0a\x01a\x0a\x03\x1a\x01b\x0a\x02\x0a\x00";
    let tree = protobuf::decode(config_map, message).unwrap();
    assert_eq!(Value::from(tree), json!({"metadata": {"namespace": "b"}}));
}

#[test]
fn packed_numbers_are_decoded() {
    let context = types().find("api.core.v1.PodSecurityContext").unwrap();
    let tree = protobuf::decode(context, b"\x22\x03\x05\xac\x02\x20\x07").unwrap();
    assert_eq!(
        Value::from(tree),
        json!({"supplementalGroups": [5, 300, 7]})
    );
}

#[test]
fn invalid_utf8_is_replaced_as_in_go() {
    let meta = types().find("apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let tree = protobuf::decode(meta.unwrap(), b"\x0a\x04a\xe4\xb8b").unwrap();
    assert_eq!(Value::from(tree), json!({"name": "a\u{fffd}\u{fffd}b"}));
}

#[test]
fn errors_are_worded_as_in_go() {
    let config_map = types().find("api.core.v1.ConfigMap").unwrap();
    let refused = |message: &[u8]| protobuf::decode(config_map, message).unwrap_err();
    let wrong = refused(b"\x22\x01x").to_string();
    assert_eq!(wrong, "proto: wrong wireType = 2 for field Immutable");
    assert_eq!(refused(b"\x0a\x05a"), Error::Truncated);
    assert_eq!(
        refused(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        Error::Truncated
    );
    let tag = refused(b"\x02\x00").to_string();
    assert_eq!(tag, "proto: ConfigMap: illegal tag 0 (wire type 2)");
    let group = refused(b"\x0c").to_string();
    assert_eq!(group, "proto: ConfigMap: wiretype end group for non-group");
}

#[test]
fn quantities_are_canonicalized() {
    let selector = types().find("api.core.v1.ResourceFieldSelector").unwrap();
    let with = |text: &str| {
        let mut message = vec![0x1a, text.len() as u8 + 2, 0x0a, text.len() as u8];
        message.extend_from_slice(text.as_bytes());
        protobuf::decode(selector, &message).map(|tree| tree["divisor"].clone())
    };
    assert_eq!(with("1000m"), Ok(json!("1")));
    assert_eq!(with("2048Ki"), Ok(json!("2Mi")));
    assert!(matches!(with("much"), Err(Error::Quantity(_))));
    assert!(matches!(with(""), Err(Error::Quantity(_))));
}

#[test]
fn message_depth_is_bounded() {
    let schema = types().find("apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let mut message = Vec::new();
    // `not` in `not` in `not`.
    for _ in 0..500 {
        let mut outer = vec![0xe2, 0x01];
        put_length(&mut outer, message.len());
        outer.append(&mut message);
        message = outer;
    }
    let refused = protobuf::decode(schema.unwrap(), &message);
    assert_eq!(refused, Err(Error::TooDeep));
}

#[test]
fn message_count_is_bounded() {
    let spec = types().find("api.core.v1.PodSpec").unwrap();
    let containers = [0x12, 0x00].repeat(200_000);
    assert_eq!(protobuf::decode(spec, &containers), Err(Error::TooMany));
}

#[test]
fn decoded_messages_can_be_read_as_json() {
    let revision = types().find("api.apps.v1.ControllerRevision").unwrap();
    let of_depth = |depth: usize| {
        let json = "[".repeat(depth) + &"]".repeat(depth);
        let mut inner = vec![0x0a];
        put_length(&mut inner, json.len());
        inner.extend_from_slice(json.as_bytes());
        let mut raw = vec![0x12];
        put_length(&mut raw, inner.len());
        raw.append(&mut inner);
        protobuf::decode(revision, &raw)
    };
    assert!(of_depth(100).is_ok());
    assert_eq!(of_depth(125), Err(Error::TooDeep));
    assert_eq!(of_depth(200), Err(Error::NotJson("data".to_owned())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_message_is_decoded_or_rejected(which in any::<prop::sample::Index>(), bytes in any::<Vec<u8>>()) {
        let objects = types().iter().filter(|(_, of)| of.form == Form::Object);
        let all: Vec<_> = objects.map(|(id, _)| id).collect();
        let of = all[which.index(all.len())];
        // An accepted message decodes and encodes stably.
        if let Ok(tree) = protobuf::decode(of, &bytes) {
            assert_roundtrips(of, &tree);
        }
        let _ = protobuf::open(&bytes);
    }

    #[test]
    fn damaged_messages_never_panic(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut vectors = vectors();
        vectors.retain(|vector| vector.name != "empty delete options");
        let vector = &vectors[which.index(vectors.len())];
        let mut raw = protobuf::open(&vector.sealed).unwrap().raw.to_vec();
        for (at, byte) in damage {
            let at = at.index(raw.len());
            raw[at] = byte;
        }
        if let Ok(tree) = protobuf::decode(vector.of, &raw) {
            assert_roundtrips(vector.of, &tree);
        }
    }
}

/// Checks that encoding and decoding again change neither tree nor bytes.
fn assert_roundtrips(of: TypeId, tree: &Object) {
    let mut raw = Vec::new();
    protobuf::encode(of, tree, &mut raw);
    let again = protobuf::decode(of, &raw).unwrap();
    let mut raw_again = Vec::new();
    protobuf::encode(of, &again, &mut raw_again);
    assert_eq!(hex(&raw), hex(&raw_again));
    assert_eq!(&again, tree);
}

fn vectors() -> Vec<Vector> {
    let lines = include_str!("data/protobuf/vectors.jsonl").lines();
    lines.map(vector).collect()
}

fn vector(line: &str) -> Vector {
    let line: Value = serde_json::from_str(line).unwrap();
    let text = |name: &str| line[name].as_str().unwrap().to_owned();
    let mut tree = line["json"].as_object().unwrap().clone();
    tree.remove("kind");
    tree.remove("apiVersion");
    drop_nulls(&mut tree);
    Vector {
        name: text("name"),
        of: types().find(&text("type")).unwrap(),
        api_version: text("apiVersion"),
        kind: text("kind"),
        sealed: unhex(&text("sealed")),
        tree,
    }
}

/// Removes nulls, which Go prints for absent values.
fn drop_nulls(tree: &mut Object) {
    tree.retain(|_, value| !value.is_null());
    for value in tree.values_mut() {
        match value {
            Value::Object(inner) => drop_nulls(inner),
            Value::Array(list) => list
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(drop_nulls),
            _ => {}
        }
    }
}

fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(pair).collect()
}
