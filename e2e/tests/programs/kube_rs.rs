//! kube-rs in this process, for two tenants concurrently under the same names.

mod api;
mod controller;
mod watchers;

use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use insula_e2e::two_tenants::{TENANTS, TwoTenants};
use kube::Client;

use crate::runner::{client, kubeconfig};

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the action for both tenants concurrently, each with its own client.
async fn both<F>(
    two_tenants: &TwoTenants,
    act: impl Fn(&'static str, Client) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let [one, other] = TENANTS.map(|tenant| {
        let path = kubeconfig(two_tenants, tenant);
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
    let came = tokio::time::timeout(TIMEOUT, comes).await;
    came.with_context(|| format!("never: {what}"))
}
