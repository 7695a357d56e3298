//! The namespaces at the target.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::error::Error;
use crate::names::NAMESPACE_NAME;
use crate::server::Server;
use crate::settings::{NamespaceLabels, Settings};

type Labels = BTreeMap<String, String>;

/// Creates the namespaces that the target lacks. Returns the labels that the clusters' namespace
/// has at the source and not at the target.
pub async fn prepare(
    servers: (&Server, &Server),
    namespaces: &BTreeSet<String>,
    settings: &Settings,
) -> Result<Labels, Error> {
    let there: Api<Namespace> = Api::all(servers.1.client.clone());
    for name in namespaces {
        ensure(&there, name).await?;
    }
    let lacking = lacking(servers, &settings.namespace).await?;
    if settings.namespace_labels == NamespaceLabels::Leave || lacking.is_empty() {
        return Ok(lacking);
    }
    let name = &settings.namespace;
    let attempted = format!("label namespace {name} at the target");
    let patch = Patch::Merge(json!({"metadata": {"labels": lacking}}));
    let patched = there.patch(name, &PatchParams::default(), &patch).await;
    patched.map_err(Error::failed_to(attempted))?;
    Ok(Labels::new())
}

async fn ensure(namespaces: &Api<Namespace>, name: &str) -> Result<(), Error> {
    let attempted = || format!("create namespace {name} at the target");
    let there = namespaces.get_opt(name).await;
    if there.map_err(Error::failed_to(attempted()))?.is_some() {
        return Ok(());
    }
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match namespaces.create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).map_err(Error::failed_to(attempted())),
    }
}

async fn lacking(servers: (&Server, &Server), name: &str) -> Result<Labels, Error> {
    let (mut here, there) = (
        labels(servers.0, name).await?,
        labels(servers.1, name).await?,
    );
    here.retain(|key, _| key != NAMESPACE_NAME && !there.contains_key(key));
    Ok(here)
}

async fn labels(server: &Server, name: &str) -> Result<Labels, Error> {
    let namespaces: Api<Namespace> = Api::all(server.client.clone());
    let attempted = format!("read namespace {name} at the {}", server.role);
    let found = namespaces.get_opt(name).await;
    let found = found.map_err(Error::failed_to(attempted))?;
    Ok(found.map_or_else(Labels::new, |found| found.labels().clone()))
}
