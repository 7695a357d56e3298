//! The bytes that the store holds of an object.

use bytes::Bytes;
use insula_kinds::{Kind, Object, Value, encode};

/// Encodes an object of `kind`, which must be in the kind's version.
pub fn encoded(kind: &Kind, object: &Object) -> Bytes {
    if kind.is_custom() {
        return custom(object).into();
    }
    let mut out = Vec::with_capacity(1024);
    encode::json(
        kind.api_version(),
        &kind.kind,
        kind.type_id(),
        object,
        &mut out,
    );
    out.into()
}

/// Encodes a custom object, with the kind and version that it names itself.
pub fn custom(object: &Object) -> Vec<u8> {
    let text = |member: &str| object.get(member).and_then(Value::as_str).unwrap_or("");
    let mut out = Vec::with_capacity(1024);
    encode::custom(text("apiVersion"), text("kind"), object, &mut out);
    out
}
