//! Reads of objects of kinds that may not be served.

use std::fmt::Debug;

use kube::{Api, Error};
use serde::de::DeserializeOwned;

/// Returns the object; `None` also if the cluster does not serve its kind, which is a 404
/// without details.
pub(crate) async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>, Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    match api.get(name).await {
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        found => found.map(Some),
    }
}
