//! The floods of a noisy tenant.

mod connections;
mod definitions;
mod requests;
mod stalled;
mod webhooks;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::ValueEnum;
use http::{Method, StatusCode};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::quiet::await_namespace;
use crate::api::client::{Answer, Client};
use crate::api::kubeconfig::Kubeconfig;
use crate::api::objects;
use crate::figures::Figures;

/// Options of one flood.
#[derive(clap::Args)]
pub struct Args {
    /// The flood.
    #[arg(value_enum)]
    flood: Flood,
    /// Kubeconfig of the noisy tenant.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// How long it lasts.
    #[arg(long)]
    seconds: u64,
}

/// What a noisy tenant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Flood {
    Requests,
    Lists,
    Creates,
    LargeObjects,
    Watches,
    Definitions,
    Webhooks,
    Quota,
    StalledWindows,
    Handshakes,
    SilentConnections,
}

/// The responses to a flood.
#[derive(Debug, Default)]
pub struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
    cut_off: AtomicU64,
}

/// A flood that is under way.
#[derive(Clone)]
pub struct Run {
    kubeconfig: Arc<Kubeconfig>,
    until: Instant,
    counts: Arc<Counts>,
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The objects of the lists, of a kilobyte each: fewer than a tenant may create in one burst.
const LISTED: usize = 3_500;
/// The tenant's quota of objects in the flood of refused creates.
const QUOTA: usize = 100;

impl Flood {
    /// Returns the selected floods, or all.
    pub fn selected(only: &[Self]) -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|flood| only.is_empty() || only.contains(flood))
            .collect()
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Lists => "lists",
            Self::Creates => "creates",
            Self::LargeObjects => "large-objects",
            Self::Watches => "watches",
            Self::Definitions => "definitions",
            Self::Webhooks => "webhooks",
            Self::Quota => "quota",
            Self::StalledWindows => "stalled-windows",
            Self::Handshakes => "handshakes",
            Self::SilentConnections => "silent-connections",
        }
    }

    /// Returns the row of the report.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Requests => "1,600 gets at once on 16 connections",
            Self::Lists => "16 lists of 3,500 objects at once, half of them tables",
            Self::Creates => "256 creates at once",
            Self::LargeObjects => "16 updates of 900 kB at once",
            Self::Watches => "10,000 watches of an object that changes all the time",
            Self::Definitions => "25 definitions of 850 kB, their updates and OpenAPI documents",
            Self::Webhooks => "256 creates at once, each with a webhook that never answers",
            Self::Quota => "256 creates at once over a full quota",
            Self::StalledWindows => "2,000 lists over windows of one byte",
            Self::Handshakes => "64 TLS handshakes at once, without a request",
            Self::SilentConnections => "2,000 connections that never begin a handshake",
        }
    }

    /// Creates what the flood needs, before anything is measured.
    pub async fn prepare(self, admin: &Client, noisy: &Kubeconfig) -> Result<()> {
        let client = Client::connect(noisy, 8).await?;
        await_namespace(&client).await?;
        match self {
            Self::Requests | Self::Watches => fill(&client, 1).await,
            Self::LargeObjects => fill(&client, requests::LARGE).await,
            Self::Lists | Self::StalledWindows => fill(&client, LISTED).await,
            Self::Quota => {
                let patch = json!({"spec": {"quota": {"objects": QUOTA}}}).to_string();
                let path = format!("/api/v1/tenants/{}", super::NOISY);
                let patched = admin.call(Method::PATCH, &path, Some(Bytes::from(patch)));
                patched.await?.expect(StatusCode::OK)
            }
            _ => Ok(()),
        }
    }

    async fn run(self, run: &Run) -> Result<()> {
        match self {
            Self::Requests => requests::gets(run).await,
            Self::Lists => requests::lists(run).await,
            Self::Creates | Self::Quota => requests::creates(run).await,
            Self::LargeObjects => requests::large_updates(run).await,
            Self::Watches => requests::watches(run).await,
            Self::Definitions => definitions::flood(run).await,
            Self::Webhooks => webhooks::flood(run).await,
            Self::StalledWindows => stalled::flood(run).await,
            Self::Handshakes => connections::handshakes(run).await,
            Self::SilentConnections => connections::silent(run).await,
        }
    }
}

/// Floods the server, and sends the counts to the process that measures.
pub async fn run(args: &Args) -> Result<()> {
    let run = Run {
        kubeconfig: Arc::new(Kubeconfig::read(&args.kubeconfig)?),
        until: Instant::now() + Duration::from_secs(args.seconds),
        counts: Arc::default(),
    };
    // Requests that the server keeps waiting do not prolong the flood.
    if let Ok(ended) = tokio::time::timeout_at(run.until, args.flood.run(&run)).await {
        ended.context("the flood failed")?;
    }
    Ok(run.counts.figures().send()?)
}

impl Run {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Returns new connections.
    async fn connect(&self, connections: usize) -> Result<Client> {
        Client::connect(&self.kubeconfig, connections).await
    }

    /// Runs a number of workers until the end. A worker begins again after its connection broke.
    async fn workers<F>(&self, count: usize, work: impl Fn(usize, Self) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let mut workers = JoinSet::new();
        for n in 0..count {
            workers.spawn(work(n, self.clone()));
        }
        while let Some(ended) = workers.join_next().await {
            ended??;
        }
        Ok(())
    }
}

impl Counts {
    fn count(&self, answer: &Result<Answer>) {
        let counter = match answer {
            Ok(answer) if answer.status.is_success() => &self.answered,
            Ok(_) => &self.refused,
            Err(_) => &self.cut_off,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn cut_off(&self) {
        self.cut_off.fetch_add(1, Ordering::Relaxed);
    }

    fn figures(&self) -> Figures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        Figures::default()
            .with("answered", get(&self.answered))
            .with("refused", get(&self.refused))
            .with("cut off", get(&self.cut_off))
    }
}

/// Creates a number of objects, several at once.
async fn fill(client: &Client, count: usize) -> Result<()> {
    let mut creating = JoinSet::new();
    for n in 0..count {
        let sender = client.sender(n)?;
        let body = Some(objects::configmap(n, None, "-"));
        let request = sender.prepare(Method::POST, MAPS, body)?;
        creating.spawn(async move { sender.send(request).await });
        if creating.len() >= 64
            && let Some(created) = creating.join_next().await
        {
            created??.expect(StatusCode::CREATED)?;
        }
    }
    while let Some(created) = creating.join_next().await {
        created??.expect(StatusCode::CREATED)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flood_has_the_name_of_its_argument() {
        for flood in Flood::value_variants() {
            let value = flood.to_possible_value().unwrap();
            assert_eq!(value.get_name(), flood.name());
        }
        assert_eq!(Flood::selected(&[Flood::Lists]), [Flood::Lists]);
        assert_eq!(Flood::selected(&[]).len(), 11);
    }
}
