//! kube-rs in this process, for two tenants concurrently under the same names.

mod api;
mod controller;
mod following;

use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use insula_e2e::scene::{Scene, TENANTS};
use kube::Client;

use crate::cast::{client, kubeconfig};

/// The deadline of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the action for both tenants concurrently, each with its own client.
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

/// Awaits a future with a timeout.
async fn soon<T>(what: &str, comes: impl Future<Output = T>) -> anyhow::Result<T> {
    let came = tokio::time::timeout(PATIENCE, comes).await;
    came.with_context(|| format!("never: {what}"))
}
