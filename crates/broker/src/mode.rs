//! Whether a broker is one of many, and what the cluster serves for it.
//!
//! A tenant may not read definitions. But everybody may ask what the server serves.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};

use crate::error::Error;
use crate::names::TENANT_LABEL;

/// Where tenants are.
const GROUP: &str = "submariner.io/v1alpha1";
/// How long what one server serves may be unknown to another.
pub(crate) const PAUSE: Duration = Duration::from_millis(200);

/// Groups and versions, and what a broker needs of each.
const NEEDED: [(&str, &[&str]); 3] = [
    (GROUP, &["brokers"]),
    ("submariner.io/v1", &["clusters", "endpoints"]),
    (
        "multicluster.x-k8s.io/v1alpha1",
        &["serviceimports", "serviceexports"],
    ),
];

/// Whether the cluster has tenants, or the namespace is a tenant's that has a space of its
/// own.
///
/// # Errors
///
/// What the server answers.
pub async fn is_axon(client: &Client, namespace: &str) -> Result<bool, Error> {
    let mut found = served(client, GROUP).await?;
    if found.is_empty() {
        // Of several servers one may not have heard yet of what another was told.
        tokio::time::sleep(PAUSE).await;
        found = served(client, GROUP).await?;
    }
    if found.contains("tenants") {
        return Ok(true);
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_opt(namespace).await {
        Ok(found) => Ok(found.is_some_and(|found| found.labels().contains_key(TENANT_LABEL))),
        // A tenant may read its namespace.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        Err(error) => Err(Error::when(format!("read namespace {namespace}"))(error)),
    }
}

/// The kinds that a broker needs and the cluster does not serve.
///
/// # Errors
///
/// What the server answers.
pub async fn missing_kinds(client: &Client) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    for (group_version, needed) in NEEDED {
        let served = served(client, group_version).await?;
        let group = group_version.split('/').next().unwrap_or_default();
        let absent = needed.iter().filter(|plural| !served.contains(**plural));
        missing.extend(absent.map(|plural| format!("{plural}.{group}")));
    }
    Ok(missing)
}

/// What the server serves of a group and version.
pub(crate) async fn served(
    client: &Client,
    group_version: &str,
) -> Result<BTreeSet<String>, Error> {
    match client.list_api_group_resources(group_version).await {
        Ok(listed) => Ok(listed.resources.into_iter().map(|kind| kind.name).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(BTreeSet::new()),
        Err(error) => Err(Error::when(format!(
            "ask what is served of {group_version}"
        ))(error)),
    }
}
