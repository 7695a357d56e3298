//! Objects without any field set.

use std::borrow::Cow;
use std::sync::LazyLock;

use insula_kinds::{Kind, Object, TypeId, Value, encode, kinds};

static ZEROS: LazyLock<Vec<(TypeId, Object)>> = LazyLock::new(|| {
    let zero = |kind: &Kind| (kind.type_id(), of_kind(kind));
    let mut zeros: Vec<_> = kinds().iter().map(|(_, kind)| zero(kind)).collect();
    zeros.sort_by_key(|(of, _)| *of);
    zeros
});

/// Returns the zero object of a kind: what Go writes for the zero value of its type, which is
/// nothing for custom resources. The creator of an object owns its differences from this one.
pub fn zero(kind: &Kind) -> Cow<'static, Object> {
    if kind.is_custom() {
        return Cow::Owned(named(kind.api_version(), &kind.kind));
    }
    let of = kind.type_id();
    match ZEROS.binary_search_by_key(&of, |(of, _)| *of) {
        Ok(at) => Cow::Borrowed(&ZEROS[at].1),
        Err(_) => Cow::Owned(of_kind(kind)),
    }
}

/// The same for a type that is served only as a subresource, such as Scale.
pub fn of_type(api_version: &str, kind: &str, of: TypeId) -> Object {
    let mut object = named(api_version, kind);
    encode::complete(of, &mut object);
    object
}

fn of_kind(kind: &Kind) -> Object {
    of_type(kind.api_version(), &kind.kind, kind.type_id())
}

fn named(api_version: &str, kind: &str) -> Object {
    let members = [("apiVersion", api_version), ("kind", kind)];
    let member = |(name, text): (&str, &str)| (name.to_owned(), Value::from(text));
    members.into_iter().map(member).collect()
}
