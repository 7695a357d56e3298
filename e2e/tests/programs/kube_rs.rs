//! kube-rs in this process, for two tenants at the same time under the same names.

mod api;
mod controller;
mod following;

use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use insula_e2e::scene::{Scene, TENANTS};
use kube::Client;

use crate::cast::{client, kubeconfig};

/// Longer than anything takes that is going to happen at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both tenants do this at the same time, each with its own client.
async fn both<F>(scene: &Scene, act: impl Fn(&'static str, Client) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let [one, other] = TENANTS.map(|tenant| {
        let path = kubeconfig(scene, tenant);
        let act = &act;
        async move {
            let client = client(&path).await?;
            act(tenant, client).await.context(tenant)
        }
    });
    futures_util::future::try_join(one, other).await.map(drop)
}

/// What comes in time.
async fn soon<T>(what: &str, comes: impl Future<Output = T>) -> anyhow::Result<T> {
    let came = tokio::time::timeout(PATIENCE, comes).await;
    came.with_context(|| format!("never: {what}"))
}
