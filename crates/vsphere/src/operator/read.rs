//! Reads of referenced objects, and of objects with possibly invalid content.

use std::fmt::Debug;

use kube::api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tracing::debug;

use crate::names::is_valid_name;

/// How many objects are listed per request.
const PAGE_SIZE: u32 = 200;

/// Returns the object of that name. An invalid name is not requested, because it could lead to
/// another resource in a URL path.
pub(crate) async fn get_named<K>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    match is_valid_name(name) {
        true => api.get_opt(name).await,
        false => Ok(None),
    }
}

/// Returns the metadata of the object of that name.
pub(super) async fn get_named_metadata<K>(
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
pub(super) async fn list_each<K, T>(
    client: &Client,
    select: impl Fn(DynamicObject) -> Option<T>,
) -> Result<Vec<T>, kube::Error>
where
    K: Resource<DynamicType = ()>,
{
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
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
pub(super) fn parse<K>(object: DynamicObject) -> Option<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let name = object.metadata.name.clone();
    let parsed = object.try_parse();
    parsed
        .inspect_err(|error| debug!(name, %error, "object not parsed"))
        .ok()
}
