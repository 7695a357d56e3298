//! Deployment of the operator and of brokers.

pub mod axon;
pub mod broker;
pub(crate) mod permissions;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use crate::error::Error;

/// Returns whether a namespace exists; fails if it is being deleted, since nothing can be
/// created in it.
async fn has_namespace(client: &Client, name: &str) -> Result<bool, Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get_opt(name).await;
    let found = found.map_err(Error::when(format!("read namespace {name}")))?;
    match found {
        None => Ok(false),
        Some(found) if found.metadata.deletion_timestamp.is_none() => Ok(true),
        Some(_) => Err(Error::invalid_with_hint(
            format!("namespace {name} is being deleted"),
            "wait until it is gone",
        )),
    }
}
