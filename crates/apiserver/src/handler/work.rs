//! The work of a request, as flow control counts it.

use std::borrow::Cow;

use http::HeaderMap;
use insula_core::{Spaces, Verb};

use crate::flow_control::{HEAVY, Work, decoded};
use crate::pipeline::authorize::Granted;
use crate::registry::Registry;
use crate::request::negotiate;
use crate::request::query::Query;
use crate::status::Result;

/// Returns what a request is about to do, as far as that is known without its body.
///
/// Objects are counted up to the number from which a read is heavy. Those that a selector
/// leaves out count too: leaving them out is most of the work.
pub fn work_of(registry: &Registry, granted: &Granted, query: &Query) -> Work {
    let verb = granted.path().verb;
    let objects = match verb {
        Verb::List | Verb::Watch | Verb::DeleteCollection => objects_read(registry, granted, query),
        Verb::Get => weight(1, stored_bytes(registry, granted)),
        _ => 1,
    };
    match verb.reads() {
        true => Work::Read { objects },
        false => Work::Write { objects },
    }
}

/// Returns the memory for the decoded objects of a write: the sent one and the stored one.
///
/// # Errors
///
/// If the body is no object of acceptable size.
pub fn decoded_bytes(
    registry: &Registry,
    granted: &Granted,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<usize> {
    let sent = match negotiate::is_cbor(headers) {
        true => decoded::estimate_cbor(body)?,
        false => decoded::estimate(body)?,
    };
    let kind = &granted.path().kind;
    let is_structured = kind.custom().is_some() || kind.is(insula_cache::definitions());
    let stored = decoded::estimate_stored(stored_bytes(registry, granted), is_structured);
    Ok(sent.max(stored))
}

/// Returns the bytes that the named object takes in the cache; 0 if there is none.
fn stored_bytes(registry: &Registry, granted: &Granted) -> usize {
    let path = granted.path();
    let (Spaces::One(space), Some(name)) = (granted.spaces(), &path.name) else {
        return 0;
    };
    let key = match &path.namespace {
        Some(namespace) => Cow::from(format!("{namespace}/{name}")),
        None => Cow::from(name),
    };
    let collection = registry.cache().find(path.kind.storage(), space);
    let stored = collection.and_then(|collection| collection.get(&key));
    stored.map_or(0, |stored| stored.stored_length())
}

/// Returns how many objects of the usual size these are.
fn weight(objects: usize, bytes: usize) -> usize {
    objects.max(bytes / USUAL_BYTES)
}

/// The size of an object for which [`HEAVY`] was measured, with room to spare. A read of large
/// objects, which may be compressed, is as heavy as one of many.
const USUAL_BYTES: usize = 8 << 10;

/// Returns how many objects of the usual size a request reads; more than [`HEAVY`] count as so
/// many.
fn objects_read(registry: &Registry, granted: &Granted, query: &Query) -> usize {
    let path = granted.path();
    let Spaces::One(space) = granted.spaces() else {
        return HEAVY;
    };
    if path.verb == Verb::Watch && !sends_initial_state(query) {
        return 1;
    }
    let Some(collection) = registry.cache().find(path.kind.storage(), space) else {
        return 0;
    };
    let selects = ["labelSelector", "fieldSelector"];
    let selects = selects.iter().any(|name| query.get(name).is_some());
    let page = query.integer("limit").ok().flatten().unwrap_or(0);
    let max = match usize::try_from(page) {
        Ok(page) if page > 0 && !selects => page.min(HEAVY),
        _ => HEAVY,
    };
    let (objects, bytes) = match &path.namespace {
        Some(namespace) => collection.weigh(&format!("{namespace}/"), max),
        None => collection.weigh("", max),
    };
    weight(objects, bytes)
}

/// Whether a watch begins with the objects that exist.
fn sends_initial_state(query: &Query) -> bool {
    query.flag("sendInitialEvents") || matches!(query.get("resourceVersion"), None | Some("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_large_objects_are_as_heavy_as_many_small_ones() {
        let is_heavy = |objects, bytes| {
            let objects = weight(objects, bytes);
            Work::Read { objects }.is_heavy()
        };
        assert!(!is_heavy(99, 99 * 1024));
        assert!(is_heavy(100, 100 * 1024));
        assert!(!is_heavy(1, 700_000));
        assert!(is_heavy(1, 900_000));
        assert!(is_heavy(10, 10 * 90_000));
    }
}
