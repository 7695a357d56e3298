//! Whether a cluster is in Axon mode, and which kinds it serves.
//!
//! A tenant may not read CustomResourceDefinitions, but every user may read discovery.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};

use crate::error::Error;
use crate::names::TENANT_LABEL;

/// The API group and version of tenants.
const GROUP: &str = "submariner.io/v1alpha1";
/// How long discovery may lag between API servers of one cluster.
pub(crate) const DISCOVERY_LAG: Duration = Duration::from_millis(200);

/// The kinds that a broker needs, by group and version.
const NEEDED: [(&str, &[&str]); 3] = [
    (GROUP, &["brokers"]),
    ("submariner.io/v1", &["clusters", "endpoints"]),
    (
        "multicluster.x-k8s.io/v1alpha1",
        &["serviceimports", "serviceexports"],
    ),
];

/// Returns whether the cluster serves tenants, or the namespace is that of a tenant with a
/// space of its own.
///
/// # Errors
///
/// Any error of the server.
pub async fn is_axon(client: &Client, namespace: &str) -> Result<bool, Error> {
    let mut found = served(client, GROUP).await?;
    if found.is_empty() {
        // One of several API servers may not know a new kind yet.
        tokio::time::sleep(DISCOVERY_LAG).await;
        found = served(client, GROUP).await?;
    }
    if found.contains("tenants") {
        return Ok(true);
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_opt(namespace).await {
        Ok(found) => Ok(found.is_some_and(|found| found.labels().contains_key(TENANT_LABEL))),
        // A tenant may read its own namespace, so a 403 means that it is not a tenant's.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        Err(error) => Err(Error::when(format!("read namespace {namespace}"))(error)),
    }
}

/// Returns whether the server is the system space of an Insula: only there the core group has
/// tenants.
///
/// # Errors
///
/// Any error of the server.
pub(crate) async fn has_spaces(client: &Client) -> Result<bool, Error> {
    let served = client.list_core_api_resources("v1").await;
    let served = served.map_err(Error::when("ask what is served of v1"))?;
    Ok(served.resources.iter().any(|kind| kind.name == "tenants"))
}

/// Returns the kinds that a broker needs and the cluster does not serve.
///
/// # Errors
///
/// Any error of the server.
pub(crate) async fn missing_kinds(client: &Client) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    for (group_version, needed) in NEEDED {
        let served = served(client, group_version).await?;
        let group = group_version.split('/').next().unwrap_or_default();
        let absent = needed.iter().filter(|plural| !served.contains(**plural));
        missing.extend(absent.map(|plural| format!("{plural}.{group}")));
    }
    Ok(missing)
}

/// Returns the plural names of the kinds that a group and version serves.
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
