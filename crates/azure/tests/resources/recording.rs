//! A client that records its requests to the API server.

#![allow(dead_code, reason = "each test program uses what it needs of it")]

use std::sync::{Arc, Mutex, PoisonError};

use http::Request;
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    pub query: String,
    pub body: String,
}

impl Recorded {
    pub fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// Returns the method, the kind and the subresource of a request in a namespace.
    pub fn in_namespace(&self) -> Option<String> {
        let (_, rest) = self.path.split_once("/namespaces/")?;
        let mut segments = rest.split('/').skip(1);
        let kind = segments.next().unwrap_or("namespaces");
        let subresource = segments.nth(1).unwrap_or_default();
        Some(format!("{} {kind} {subresource}", self.method))
    }
}

/// All requests of a client.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<Recorded>>>);

impl Recorder {
    pub fn requests(&self) -> Vec<Recorded> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns a client that sends with another one.
    pub fn client(&self, client: &Client) -> Client {
        let (client, recorder) = (client.clone(), self.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (client, recorder) = (client.clone(), recorder.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let recorded = Recorded {
                    method: parts.method.to_string(),
                    path: parts.uri.path().to_owned(),
                    query: parts.uri.query().unwrap_or_default().to_owned(),
                    body: String::from_utf8_lossy(&body).into_owned(),
                };
                recorder
                    .0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(recorded);
                let request = Request::from_parts(parts, Body::from(body));
                Ok::<_, BoxError>(client.send(request).await?)
            }
        });
        Client::new(service, "default")
    }
}
