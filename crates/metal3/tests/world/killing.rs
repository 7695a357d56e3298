//! Operators that are killed at a certain write, to the management cluster or to a server that a
//! kubeconfig names: that of the hosts, or that of a workload cluster.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request};
use insula_testkit::server::{Relay, TestServer};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// To the operator's own server.
    Management,
    /// To the server of a kubeconfig.
    Kubeconfig,
}

/// The write before which an operator is killed: the first one of a side is number 1. An operator
/// that is killed after a write leaves the same state as one that is killed before the next.
pub type KillPoint = (Side, usize);

/// The record of an operator that is killed before a write reaches a server.
#[derive(Default)]
pub struct KillRecord {
    at: Option<KillPoint>,
    state: Mutex<State>,
    pub killed: Notify,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// The writes of each side, as method and resource.
    management: Vec<String>,
    kubeconfig: Vec<String>,
    /// The write at which the operator was killed.
    cut: Option<(Side, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Writes are not counted: the operator has not begun, or is a successor.
    #[default]
    Unwatched,
    Watched,
    /// No write reaches a server any more.
    Dead,
}

impl KillRecord {
    pub fn new(at: Option<KillPoint>) -> Arc<Self> {
        Arc::new(Self {
            at,
            ..Self::default()
        })
    }

    /// Counts writes from now on.
    pub fn watch(&self) {
        self.state().phase = Phase::Watched;
    }

    /// Lets the writes of a successor pass.
    pub fn ignore(&self) {
        self.state().phase = Phase::Unwatched;
    }

    /// Returns the different writes to servers of kubeconfigs, as method and resource.
    pub fn outside(&self) -> BTreeSet<String> {
        self.state().kubeconfig.iter().cloned().collect()
    }

    /// Returns the write at which the operator was killed.
    pub fn cut(&self) -> Option<(Side, String)> {
        self.state().cut.clone()
    }

    /// Returns where to kill operators that do the same: at each write to a server of a kubeconfig,
    /// and at each `step`-th one to the management cluster; at each one if `INSULA_OPERATOR_KILLS`
    /// is `all`.
    pub fn points(&self, step: usize) -> Vec<KillPoint> {
        let step = match std::env::var("INSULA_OPERATOR_KILLS").as_deref() {
            Ok("all") => 1,
            _ => step,
        };
        let state = self.state();
        let own = (1..=state.management.len()).step_by(step);
        let outside = 1..=state.kubeconfig.len();
        let own = own.map(|nth| (Side::Management, nth));
        own.chain(outside.map(|nth| (Side::Kubeconfig, nth)))
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request if it is a write, and returns whether it may pass.
    fn admits(&self, side: Side, method: &Method, path: &str) -> bool {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let is_review = path.starts_with("/apis/authorization.k8s.io/");
        if is_read || is_review || path.ends_with("/events") {
            return true;
        }
        let mut state = self.state();
        match state.phase {
            Phase::Unwatched => return true,
            Phase::Dead => return false,
            Phase::Watched => {}
        }
        let write = format!("{method} {}", resource(path));
        let writes = match side {
            Side::Management => &mut state.management,
            Side::Kubeconfig => &mut state.kubeconfig,
        };
        writes.push(write.clone());
        if self.at != Some((side, writes.len())) {
            return true;
        }
        state.phase = Phase::Dead;
        state.cut = Some((side, write));
        drop(state);
        self.killed.notify_one();
        false
    }
}

/// Returns the resource of a path, such as `secrets`.
fn resource(path: &str) -> &str {
    let mut parts = path.split('/').skip_while(|part| !part.starts_with('v'));
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (_, Some("namespaces"), _, Some(resource)) | (_, Some(resource), ..) => resource,
        _ => path,
    }
}

/// Returns a client that stops before a certain write in a namespace.
pub fn killing_client(client: &Client, namespace: &str, record: &Arc<KillRecord>) -> Client {
    let (client, record) = (client.clone(), Arc::clone(record));
    let namespace = format!("/namespaces/{namespace}/");
    let service = service_fn(move |request: Request<Body>| {
        let (client, path) = (client.clone(), request.uri().path());
        let passes =
            !path.contains(&namespace) || record.admits(Side::Management, request.method(), path);
        async move {
            match passes {
                true => Ok::<_, BoxError>(client.send(request).await?),
                false => std::future::pending().await,
            }
        }
    });
    Client::new(service, "default")
}

/// Starts a relay in front of a server that stops before a certain write, and lets a kubeconfig of
/// the server lead there.
pub async fn killing_relay(
    server: &TestServer,
    kubeconfig: &mut Value,
    record: &Arc<KillRecord>,
) -> anyhow::Result<Relay> {
    let record = Arc::clone(record);
    let admit = move |head: &http::request::Parts| {
        record.admits(Side::Kubeconfig, &head.method, head.uri.path())
    };
    let relay = server.relay(admit).await?;
    kubeconfig["clusters"][0]["cluster"]["server"] = relay.url().into();
    Ok(relay)
}
