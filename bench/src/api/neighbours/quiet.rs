//! The quiet tenant: a steady rate of small requests, each measured from the time it was due.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::api::client::{Client, Sender};
use crate::api::kubeconfig::Kubeconfig;
use crate::api::objects;
use crate::figures::{Figures, Quantiles};

pub const REQUESTS_PER_SECOND: u32 = 50;
pub const CONNECTIONS_PER_SECOND: u32 = 4;

/// The objects that it has.
const OBJECTS: usize = 20;
/// A request that takes longer is an error.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The timeout until a new tenant has its namespace.
const READY: Duration = Duration::from_secs(30);

/// A tenant with a few objects and one connection.
pub struct QuietTenant {
    kubeconfig: Arc<Kubeconfig>,
    client: Client,
}

/// The service that the tenant got.
#[derive(Debug, Default)]
pub struct Service {
    requests: Vec<Duration>,
    connections: Vec<Duration>,
    pub errors: Vec<String>,
}

/// What was due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Request,
    Connection,
}

impl QuietTenant {
    pub async fn new(kubeconfig: PathBuf) -> Result<Self> {
        let kubeconfig = Kubeconfig::read(&kubeconfig)?;
        let client = Client::connect(&kubeconfig, 1).await?;
        await_namespace(&client).await?;
        for n in 0..OBJECTS {
            let body = Some(objects::configmap(n, None, "-"));
            let created = client.call(Method::POST, MAPS, body).await?;
            created.expect(StatusCode::CREATED)?;
        }
        Ok(Self {
            kubeconfig: Arc::new(kubeconfig),
            client,
        })
    }

    /// Sends requests at a steady rate, however long each takes.
    pub async fn measure(&self, time: Duration) -> Result<Service> {
        let (start, mut sent) = (Instant::now(), JoinSet::new());
        for (n, (at, due)) in schedule(time).into_iter().enumerate() {
            sleep_until(start + at).await;
            let (sender, kubeconfig) = (self.client.sender(0)?, Arc::clone(&self.kubeconfig));
            sent.spawn(async move {
                let answered = match due {
                    Due::Request => timeout(TIMEOUT, request(&sender, n)).await,
                    Due::Connection => timeout(TIMEOUT, connect(&kubeconfig)).await,
                };
                let answered = answered.context("no answer within 10 s").flatten();
                (due, (start + at).elapsed(), answered)
            });
        }
        let mut service = Service::default();
        while let Some(done) = sent.join_next().await {
            let (due, took, answered) = done?;
            match due {
                Due::Request => service.requests.push(took),
                Due::Connection => service.connections.push(took),
            }
            if let Err(error) = answered {
                service.errors.push(format!("{error:#}"));
            }
        }
        Ok(service)
    }
}

impl Service {
    /// Returns `p50`, `p99` and `max` of requests, and of connections under `connect`.
    pub fn figures(&self) -> Figures {
        let requests = Quantiles::of(self.requests.clone());
        let connections = Quantiles::of(self.connections.clone());
        Figures::default()
            .with("p50", requests.p50.as_secs_f64())
            .with("p99", requests.p99.as_secs_f64())
            .with("max", requests.max.as_secs_f64())
            .times("connect", connections)
    }
}

/// Returns the times at which something is due, in their order.
fn schedule(time: Duration) -> Vec<(Duration, Due)> {
    let every = |rate: u32, due: Due| {
        let count = (time.as_secs_f64() * f64::from(rate)) as u32;
        (0..count).map(move |n| (Duration::from_secs(n.into()) / rate, due))
    };
    let requests = every(REQUESTS_PER_SECOND, Due::Request);
    let mut all: Vec<_> = requests
        .chain(every(CONNECTIONS_PER_SECOND, Due::Connection))
        .collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Of five requests, one is a write, one a list and three are reads.
async fn request(sender: &Sender, n: usize) -> Result<()> {
    let object = format!("{MAPS}/{}", objects::name(n % OBJECTS));
    let request = match n % 5 {
        0 => sender.prepare(Method::PATCH, &object, Some(objects::patch(n)))?,
        1 => sender.prepare(Method::GET, MAPS, None)?,
        _ => sender.prepare(Method::GET, &object, None)?,
    };
    sender.send(request).await?.expect(StatusCode::OK)
}

/// Opens a connection for one request.
async fn connect(kubeconfig: &Kubeconfig) -> Result<()> {
    let client = Client::connect(kubeconfig, 1).await?;
    let object = format!("{MAPS}/{}", objects::name(0));
    client.get(&object).await?.expect(StatusCode::OK)
}

/// Waits until a new tenant has its default namespace.
pub async fn await_namespace(client: &Client) -> Result<()> {
    let until = Instant::now() + READY;
    let path = "/api/v1/namespaces/default";
    while client.get(path).await?.status != StatusCode::OK {
        ensure!(Instant::now() < until, "the tenant does not become ready");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_connections_are_due_at_their_rates() {
        let all = schedule(Duration::from_secs(2));
        let connections = all.iter().filter(|(_, due)| *due == Due::Connection);
        assert_eq!((all.len(), connections.count()), (108, 8));
        assert!(all.is_sorted_by_key(|(at, _)| *at));
        assert!(
            all.last()
                .is_some_and(|(at, _)| *at == Duration::from_millis(1980))
        );
    }

    #[test]
    fn figures_of_requests_and_connections_are_apart() {
        let service = Service {
            requests: vec![Duration::from_millis(1); 100],
            connections: vec![Duration::from_millis(5); 10],
            errors: vec![],
        };
        let figures = service.figures();
        assert_eq!(figures.get("p99"), Some(0.001));
        assert_eq!(figures.get("connect p50"), Some(0.005));
    }
}
