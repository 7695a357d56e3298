//! Reads of referenced objects, and of objects with possibly invalid content.

use std::fmt::Debug;

use kube::api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tracing::debug;

/// How many objects are listed per request.
const PAGE_SIZE: u32 = 200;
/// The maximum length of an object's name.
const MAX_NAME_LENGTH: usize = 253;

/// Returns whether an object can have that name: DNS labels with dots between them. Any other
/// text could lead to another resource when it becomes part of a URL path.
pub fn is_valid_name(text: &str) -> bool {
    let inner = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= MAX_NAME_LENGTH && text.split('.').all(is_label)
}

/// Returns the object of that name. An invalid name is not requested, because it could lead to
/// another resource in a URL path.
///
/// # Errors
///
/// If the request fails.
pub async fn get_named<K>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    match is_valid_name(name) {
        true => api.get_opt(name).await,
        false => Ok(None),
    }
}

/// Returns the metadata of the object of that name.
///
/// # Errors
///
/// If the request fails.
pub async fn get_named_metadata<K>(
    api: &Api<K>,
    name: &str,
) -> Result<Option<PartialObjectMeta<K>>, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    match is_valid_name(name) {
        true => api.get_metadata_opt(name).await,
        false => Ok(None),
    }
}

/// Lists all objects of a kind page by page, untyped, so that one with invalid content does not
/// hide the others.
///
/// # Errors
///
/// If a request fails.
pub async fn list_each<T>(
    client: &Client,
    kind: &ApiResource,
    select: impl Fn(DynamicObject) -> Option<T>,
) -> Result<Vec<T>, kube::Error> {
    list_pages(&Api::all_with(client.clone(), kind), select).await
}

/// Lists all objects of an API page by page, untyped, so that one with invalid content does not
/// hide the others.
///
/// # Errors
///
/// If a request fails.
pub async fn list_pages<T>(
    api: &Api<DynamicObject>,
    select: impl Fn(DynamicObject) -> Option<T>,
) -> Result<Vec<T>, kube::Error> {
    let mut all = Vec::new();
    let mut parameters = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = api.list(&parameters).await?;
        all.extend(page.items.into_iter().filter_map(&select));
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok(all),
        }
    }
}

/// Parses an object; logs and skips one that is invalid.
pub fn parse<K>(object: DynamicObject) -> Option<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let name = object.metadata.name.clone();
    let parsed = object.try_parse();
    parsed
        .inspect_err(|error| debug!(name, %error, "object not parsed"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_names_are_accepted() {
        let (long, longer) = ("a".repeat(253), "a".repeat(254));
        for name in ["a", "shared", "a.b", "1-2.c", "kube-root-ca.crt", &long] {
            assert!(is_valid_name(name), "{name:?}");
        }
        for text in [
            "",
            ".",
            "..",
            "a.",
            ".a",
            "a..b",
            "-a",
            "a-",
            "a.-b",
            "A",
            "a_b",
            "a b",
            "a/b",
            "shared/status",
            "%73hared",
            "shared?x",
            "shared#x",
            "shared\n",
            "\u{e4}",
            &longer,
        ] {
            assert!(!is_valid_name(text), "{text:?}");
        }
    }
}
