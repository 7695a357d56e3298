//! Operators that are killed at a certain write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

/// Whether the last write of an operator reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    Before,
    After,
}

/// The record of an operator that is killed at a write.
#[derive(Default)]
pub struct KillRecord {
    writes: AtomicUsize,
    pub killed: Notify,
}

impl KillRecord {
    /// Returns how many writes the operator sent.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }
}

/// Returns a client that stops at a certain write in a namespace.
pub fn killing_client(
    client: &Client,
    namespace: &str,
    (kill, at): (Kill, usize),
    record: &Arc<KillRecord>,
) -> Client {
    let (client, record) = (client.clone(), Arc::clone(record));
    let path = format!("/namespaces/{namespace}/");
    let service = service_fn(move |request: Request<Body>| {
        let (client, record) = (client.clone(), Arc::clone(&record));
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        // Neither events nor claims on namespaces are steps of a reconciliation.
        let mut beside = ["/events", "/leases"].iter();
        let is_beside = beside.any(|one| request.uri().path().contains(one));
        let is_write = !is_read && !is_beside && request.uri().path().contains(&path);
        async move {
            let nth = match is_write {
                true => record.writes.fetch_add(1, Ordering::SeqCst) + 1,
                false => 0,
            };
            if nth < at {
                return Ok::<_, BoxError>(client.send(request).await?);
            }
            if nth == at && kill == Kill::After {
                client.send(request).await?;
            }
            record.killed.notify_one();
            std::future::pending().await
        }
    });
    Client::new(service, "default")
}
