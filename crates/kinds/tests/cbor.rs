//! CBOR matches what Kubernetes' encoder produces, and is decoded to the JSON it was made from.
//!
//! Each line of `data/cbor/vectors.jsonl` is an object of the other test data as Kubernetes 1.36.4
//! encodes it: with the JSON serializer of k8s.io/apimachinery, and in hexadecimal with its CBOR
//! serializer (`cbor.NewSerializer(scheme, scheme).Encode`), which sorts maps by their keys.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::{TypeId, Value, cbor, kinds, types};

struct Vector {
    json: Value,
    of: Option<TypeId>,
    document: Vec<u8>,
}

#[test]
fn go_documents_decode_to_go_json() {
    for vector in vectors() {
        let json = cbor::to_json(&vector.document).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(natural(json), natural(vector.json));
    }
}

#[test]
fn objects_encode_to_go_bytes() {
    let mut count = 0;
    for vector in vectors() {
        let json = vector.json.to_string();
        let document = cbor::self_described(vector.of, json.as_bytes());
        let again = cbor::to_json(&document).unwrap();
        let again: Value = serde_json::from_slice(&again).unwrap();
        assert_eq!(again, vector.json);
        // Go writes whole numbers of doubles, which only schemas have, as doubles.
        if json.contains(r#""maximum""#) {
            continue;
        }
        assert_eq!(hex(&sorted(&document)), hex(&vector.document), "{json}");
        count += 1;
    }
    assert!(count > 30, "{count}");
}

/// Returns the document with the entries of its maps in the order of their keys.
fn sorted(document: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let end = sort_item(document, 0, &mut out);
    assert_eq!(end, document.len());
    out
}

fn sort_item(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let (major, info) = (bytes[at] >> 5, bytes[at] & 0x1f);
    let length = if info < 24 { 0 } else { 1 << (info - 24) };
    let mut next = at + 1 + length;
    let count = match info {
        0..24 => usize::from(info),
        _ => bytes[at + 1..next]
            .iter()
            .fold(0, |value, byte| value << 8 | usize::from(*byte)),
    };
    out.extend_from_slice(&bytes[at..next]);
    match major {
        2 | 3 => {
            out.extend_from_slice(&bytes[next..next + count]);
            next += count;
        }
        4 => {
            for _ in 0..count {
                next = sort_item(bytes, next, out);
            }
        }
        5 => {
            let mut entries = Vec::new();
            for _ in 0..count {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                next = sort_item(bytes, next, &mut key);
                next = sort_item(bytes, next, &mut value);
                entries.push((key, value));
            }
            entries.sort();
            for (key, value) in entries {
                out.extend_from_slice(&key);
                out.extend_from_slice(&value);
            }
        }
        6 => next = sort_item(bytes, next, out),
        _ => {}
    }
    next
}

/// Makes whole numbers integers, as Go writes them in JSON.
fn natural(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => Value::from(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(list) => list.into_iter().map(natural).collect(),
        Value::Object(object) => {
            let members = object
                .into_iter()
                .map(|(name, value)| (name, natural(value)));
            Value::Object(members.collect())
        }
        other => other,
    }
}

fn vectors() -> Vec<Vector> {
    let lines = include_str!("data/cbor/vectors.jsonl").lines();
    lines.map(vector).collect()
}

fn vector(line: &str) -> Vector {
    let line: Value = serde_json::from_str(line).unwrap();
    let json = line["json"].clone();
    let text = |name: &str| json[name].as_str().unwrap();
    let (group, version) = text("apiVersion")
        .split_once('/')
        .unwrap_or(("", text("apiVersion")));
    let kind = kinds().find_by_kind(group, version, text("kind"));
    let of = kind.map(|id| kinds().get(id).type_id()).or_else(|| {
        let item = text("kind").strip_suffix("List")?;
        let item = kinds().find_by_kind(group, version, item)?;
        let item = types().get(kinds().get(item).type_id()).name;
        types().find(&format!("{item}List"))
    });
    Vector {
        of,
        document: unhex(line["cbor"].as_str().unwrap()),
        json,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(pair).collect()
}
