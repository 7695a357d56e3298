//! Clients of workload clusters.
//!
//! Their API servers are chosen by tenants, and may accept connections without ever answering. So
//! each tenant has a share of the requests that wait for answers, and a server that did not answer
//! is left alone for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use insula_capi::workload::{self, Unavailable};
use insula_operator::key::{Key, Space};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::client::Body;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tower::{BoxError, service_fn};
use tracing::debug;

use super::context::Reconciliation;
use crate::names::AGENT;

/// The default timeout of requests to workload clusters.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request waits for others of the same tenant.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a request has to take until its failure is that of a silent server. One that refuses
/// connections costs no time.
const MIN_SILENCE: Duration = Duration::from_secs(2);
/// How long a silent server is left alone, at first and at most: an API server that starts must be
/// found soon.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

/// Returns a client of a workload cluster. The object is triggered when its kubeconfig changes.
///
/// # Errors
///
/// If there is no kubeconfig that can be used.
pub(super) async fn client(of: &Reconciliation<'_>, cluster: &str) -> Result<Client, Unavailable> {
    let namespace = of.key.namespace_or_empty();
    let secret = workload::secret_name(cluster);
    of.depend_on_object::<Secret>(Some(namespace), &secret);
    let provider = &of.context.provider;
    workload::client(&of.secrets(namespace), cluster, AGENT, |config| {
        let workloads = &provider.workloads;
        let client = provider.clients.kubernetes(&config, workloads.timeout)?;
        let server = format!("{namespace} {cluster} {}", config.cluster_url);
        Ok(workloads.guard(of.key, server, client))
    })
    .await
}

/// A request that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotSent {
    /// The server did not answer lately.
    #[error("the API server of the workload cluster did not answer lately")]
    Silent,
    /// The tenant has too many requests that wait for answers.
    #[error("too many API servers of workload clusters do not answer")]
    Busy,
}

impl NotSent {
    /// Returns why the request with this error was not sent; none if it was.
    pub(super) fn of(error: &kube::Error) -> Option<Self> {
        match error {
            kube::Error::Service(error) => error.downcast_ref().copied(),
            _ => None,
        }
    }
}

/// The requests to workload clusters of all tenants.
#[derive(Debug)]
pub(super) struct Workloads {
    timeout: Duration,
    /// How many requests of a tenant may wait for answers at a time.
    share: usize,
    tenants: Mutex<HashMap<Tenant, Arc<TenantRequests>>>,
}

/// The owner of workload clusters: a tenant's space, or a namespace of the operator's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tenant {
    space: Space,
    namespace: Option<String>,
}

impl Workloads {
    /// Divides this number of concurrent reconciliations among tenants.
    pub(super) fn new(timeout: Duration, concurrency: usize) -> Self {
        Self {
            timeout,
            // Remediations hold a session meanwhile, which a quarter of them may have with the
            // same server of hosts: some have to be left for other tenants.
            share: (concurrency / 8).max(1),
            tenants: Mutex::default(),
        }
    }

    /// Returns a client of the same server that sends no more requests than it should.
    fn guard(&self, key: &Key, server: String, client: Client) -> Client {
        let requests = self.requests_of(key);
        let server: Arc<str> = server.into();
        let service = service_fn(move |request: Request<Body>| {
            let (client, server) = (client.clone(), Arc::clone(&server));
            let requests = Arc::clone(&requests);
            async move { requests.send(&server, &client, request).await }
        });
        Client::new(service, "default")
    }

    fn requests_of(&self, key: &Key) -> Arc<TenantRequests> {
        let tenant = Tenant {
            space: key.space.clone(),
            namespace: key.namespace.clone().filter(|_| key.space.is_none()),
        };
        let (mut tenants, now) = (lock(&self.tenants), Instant::now());
        tenants.retain(|_, requests| Arc::strong_count(requests) > 1 || requests.has_silent(now));
        let requests = tenants.entry(tenant).or_insert_with(|| {
            Arc::new(TenantRequests {
                permits: Semaphore::new(self.share),
                timeout: self.timeout,
                silent: Mutex::default(),
            })
        });
        Arc::clone(requests)
    }
}

/// The requests of one tenant.
#[derive(Debug)]
struct TenantRequests {
    permits: Semaphore,
    timeout: Duration,
    silent: Mutex<SilentServers>,
}

impl TenantRequests {
    /// Returns whether there are servers that did not answer lately.
    fn has_silent(&self, now: Instant) -> bool {
        let silent = lock(&self.silent);
        silent.0.values().any(|silence| !silence.is_over(now))
    }

    async fn send(
        &self,
        server: &Arc<str>,
        client: &Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        if lock(&self.silent).has(server, Instant::now()) {
            return Err(NotSent::Silent.into());
        }
        let permit = timeout(QUEUE_TIMEOUT, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(NotSent::Busy.into());
        };
        let begun = Instant::now();
        if !lock(&self.silent).begin(server, begun, self.timeout) {
            return Err(NotSent::Silent.into());
        }
        let answer = exchange(client, request).await;
        let now = Instant::now();
        let is_silent = answer.is_err() && now - begun >= MIN_SILENCE;
        lock(&self.silent).end(server, now, is_silent);
        Ok(answer?)
    }
}

/// The servers that did not answer.
#[derive(Debug, Default)]
struct SilentServers(HashMap<Arc<str>, Silence>);

/// A server that did not answer.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// When the next request may be sent.
    until: Instant,
    backoff: Duration,
}

impl SilentServers {
    /// Returns whether a server is left alone.
    fn has(&self, server: &str, now: Instant) -> bool {
        self.0.get(server).is_some_and(|it| it.until > now)
    }

    /// Returns whether a request may be sent. To a server that was silent, it is only one.
    fn begin(&mut self, server: &str, now: Instant, timeout: Duration) -> bool {
        match self.0.get_mut(server) {
            Some(silence) if silence.until > now => false,
            Some(silence) => {
                silence.until = now + timeout;
                true
            }
            None => true,
        }
    }

    /// Records whether a request was answered.
    fn end(&mut self, server: &Arc<str>, now: Instant, is_silent: bool) {
        // A tenant may name any number of servers.
        self.0.retain(|_, silence| !silence.is_over(now));
        let before = self.0.remove(server).map(|silence| silence.backoff);
        if !is_silent {
            return;
        }
        let backoff = before.map_or(BACKOFF.0, |before| (before * 2).min(BACKOFF.1));
        let until = now + backoff;
        self.0
            .insert(Arc::clone(server), Silence { until, backoff });
        debug!(%server, ?backoff, "workload cluster did not answer");
    }
}

impl Silence {
    /// Returns whether it is of no more interest.
    fn is_over(&self, now: Instant) -> bool {
        self.until + BACKOFF.1 < now
    }
}

/// Sends a request, and receives the whole response: a server may also be slow to end it.
async fn exchange(client: &Client, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
    let (head, body) = client.send(request).await?.into_parts();
    let body = body.collect_bytes().await?;
    Ok(Response::from_parts(head, body.into()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
