//! Objects that may not be there, of kinds that may not be there.

use std::fmt::Debug;

use kube::{Api, Error};
use serde::de::DeserializeOwned;

/// The object of that name. `None` also if the cluster does not serve its kind, of which it
/// says no more than that the page is not found.
pub(crate) async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>, Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    match api.get(name).await {
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        found => found.map(Some),
    }
}
