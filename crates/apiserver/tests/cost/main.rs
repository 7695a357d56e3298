//! What a request costs, without a clock: allocations, and the size of its future.
//!
//! The allocator counts those of all threads, so everything is one test. Counted is what the
//! handler, the store, the feed and the cache allocate; the transport is not.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::alloc::System;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use insula_access::Subject;
use insula_apiserver::flow_control::client_address::ClientAddress;
use insula_apiserver::handler::{self, App, Source};
use insula_core::Space;
use insula_testkit::server::{Engine, Setup, TestServer};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The most bytes of the future of a request.
const MAX_FUTURE_BYTES: usize = 4 << 10;

/// The number of requests of each kind.
const REQUESTS: usize = 200;

/// The most allocations of one request. An object has one field manager until it is applied, and
/// two from then on.
const MAX_ALLOCATIONS: [(&str, usize); 6] = [
    ("create", 170),
    ("get", 26),
    ("update", 150),
    ("merge patch", 160),
    ("apply", 305),
    ("delete", 110),
];

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A client in the same process.
struct Client {
    app: Arc<App>,
    source: Source,
}

impl Client {
    /// A client with the certificate of an administrator.
    async fn new(server: &TestServer) -> Self {
        let subject = Subject {
            user: "admin".to_owned(),
            groups: vec!["system:masters".to_owned()],
            tenant: Some(Space::System),
            tenant_uid: None,
        };
        let identity = server.identity(&subject).await.unwrap();
        let app = server.app();
        let peer = app.authenticator.peer(Some(&[identity.certificate]));
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let connection = app.connections.accept(ClientAddress::new(address, &[]));
        Self {
            app: Arc::clone(app),
            source: Source {
                peer: peer.at(address),
                connection: connection.expect("the first connection is accepted"),
            },
        }
    }

    fn request(method: Method, path: &str, media: &str, body: &str) -> Request<Full<Bytes>> {
        Request::builder()
            .method(method)
            .uri(path)
            .header(USER_AGENT, "cost/1.0")
            .header(CONTENT_TYPE, media)
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .unwrap()
    }

    /// Sends a request and returns the allocations until its response was read.
    async fn send(&self, request: Request<Full<Bytes>>, status: u16) -> usize {
        let region = Region::new(ALLOCATOR);
        let response = handler::serve(&self.app, &self.source, request).await;
        let is = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let change = region.change();
        assert_eq!(is, status, "{}", String::from_utf8_lossy(&body));
        change.allocations + change.reallocations
    }

    /// Returns the usual number of allocations: now and then a table grows, or the store begins a
    /// segment.
    async fn median(&self, status: u16, request: impl Fn(usize) -> Request<Full<Bytes>>) -> usize {
        let mut counts = Vec::new();
        for n in 0..REQUESTS {
            counts.push(self.send(request(n), status).await);
        }
        counts.sort_unstable();
        counts[REQUESTS / 2]
    }

    /// Returns the allocations of each operation on objects from their creation to their deletion.
    async fn life(&self) -> [usize; 6] {
        let object = |n: usize, stamp: &str| {
            let value = "x".repeat(1024);
            format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"object-{n:06}","labels":{{"bench":"other"}}}},"data":{{"stamp":"{stamp}","value":"{value}"}}}}"#
            )
        };
        let path = |n: usize| format!("{COLLECTION}/object-{n:06}");
        let create = |n| Self::request(Method::POST, COLLECTION, JSON, &object(n, "-"));
        let get = |n| Self::request(Method::GET, &path(n), JSON, "");
        let update = |n| Self::request(Method::PUT, &path(n), JSON, &object(n, "updated"));
        let patch = |n: usize| {
            let patch = format!(r#"{{"data":{{"stamp":"patched-{n:06}"}}}}"#);
            Self::request(Method::PATCH, &path(n), MERGE_PATCH, &patch)
        };
        let apply = |n| {
            let path = format!("{}?fieldManager=applier&force=true", path(n));
            Self::request(Method::PATCH, &path, APPLY, &object(n, "applied"))
        };
        let delete = |n| Self::request(Method::DELETE, &path(n), JSON, "");
        [
            self.median(201, create).await,
            self.median(200, get).await,
            self.median(200, update).await,
            self.median(200, patch).await,
            self.median(200, apply).await,
            self.median(200, delete).await,
        ]
    }
}

#[tokio::test]
async fn a_request_stays_within_its_allocations_and_its_future_is_small() {
    let server = TestServer::start_on(Engine::Embedded, Setup::default()).await;
    let server = server.unwrap().unwrap();
    let client = Client::new(&server).await;
    let get = Client::request(Method::GET, "/api/v1/namespaces/default", JSON, "");
    let future = handler::serve(&client.app, &client.source, get);
    let future_bytes = size_of_val(&future);
    drop(future);
    // What is made once, such as compiled policies, is made in the first round.
    client.life().await;
    let counts = client.life().await;
    for ((operation, max), count) in MAX_ALLOCATIONS.into_iter().zip(counts) {
        assert!(count <= max, "{operation}: {count} allocations");
        // A bound that is far away protects nothing.
        assert!(count >= max / 2, "{operation}: only {count} allocations");
    }
    assert!(future_bytes <= MAX_FUTURE_BYTES, "{future_bytes} bytes");
}
