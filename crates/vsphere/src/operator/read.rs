//! Reading what others name, and what others wrote.

use std::fmt::Debug;

use kube::api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tracing::debug;

use crate::names::is_name;

/// How many are read at a time.
const PAGE: u32 = 200;

/// What has that name. What can be no name is nobody's, and is not asked for: in a path it
/// would lead elsewhere.
pub(crate) async fn named<K>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    match is_name(name) {
        true => api.get_opt(name).await,
        false => Ok(None),
    }
}

/// The same, of its metadata.
pub(super) async fn metadata_of<K>(
    api: &Api<K>,
    name: &str,
) -> Result<Option<PartialObjectMeta<K>>, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    match is_name(name) {
        true => api.get_metadata_opt(name).await,
        false => Ok(None),
    }
}

/// What is said of each object of a kind, page by page, taken as it was written: what cannot be
/// understood of one is in the way of no other.
pub(super) async fn each<K, T>(
    client: &Client,
    say: impl Fn(DynamicObject) -> Option<T>,
) -> Result<Vec<T>, kube::Error>
where
    K: Resource<DynamicType = ()>,
{
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let mut all = Vec::new();
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&parameters).await?;
        all.extend(page.items.into_iter().filter_map(&say));
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok(all),
        }
    }
}

/// An object, if it can be understood.
pub(super) fn understood<K>(object: DynamicObject) -> Option<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let name = object.metadata.name.clone();
    let parsed = object.try_parse();
    parsed
        .inspect_err(|error| debug!(name, %error, "an object is not understood"))
        .ok()
}
