//! Who uses an identity, read anew.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;

use crate::kinds::{VSphereCluster, VSphereDeploymentZone, VSphereIdentityReference};
use crate::operator::context::Context;
use crate::operator::key::Key;

/// How many are read at a time.
const PAGE: u32 = 200;

/// The clusters and zones of its space that name an identity, in order.
pub(super) async fn of(context: &Context, key: &Key) -> Result<Vec<String>, kube::Error> {
    let client = context.client(key.space.as_deref());
    let clusters = each(Api::all(client.clone()), |cluster: VSphereCluster| {
        let names = is_named(cluster.spec.identity_ref.as_ref(), &key.name);
        names.then(|| {
            let namespace = cluster.namespace().unwrap_or_default();
            format!("VSphereCluster {namespace}/{}", cluster.name_any())
        })
    });
    let zones = each(Api::all(client), |zone: VSphereDeploymentZone| {
        let names = is_named(zone.spec.identity_ref.as_ref(), &key.name);
        names.then(|| format!("VSphereDeploymentZone {}", zone.name_any()))
    });
    let (mut users, zones) = tokio::try_join!(clusters, zones)?;
    users.extend(zones);
    users.sort();
    Ok(users)
}

fn is_named(reference: Option<&VSphereIdentityReference>, name: &str) -> bool {
    reference.is_some_and(|reference| {
        reference.kind == "VSphereClusterIdentity" && reference.name == name
    })
}

/// What is said of each object, page by page.
async fn each<K, T>(api: Api<K>, say: impl Fn(K) -> Option<T>) -> Result<Vec<T>, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut all = Vec::new();
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&parameters).await?;
        let next = page.metadata.continue_.filter(|next| !next.is_empty());
        all.extend(page.items.into_iter().filter_map(&say));
        match next {
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok(all),
        }
    }
}
