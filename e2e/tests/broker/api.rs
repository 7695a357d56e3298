//! API requests with a token.

use std::net::SocketAddr;
use std::sync::OnceLock;

use http::Method;
use insula_testkit::server::{Answer, Client, Lines};
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::wait::until;

/// A client with a token.
#[derive(Clone, Debug)]
pub struct Api {
    client: Client,
}

/// The runtime of all requests.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(1).enable_all().build().unwrap()
    })
}

impl Api {
    /// Connects, trusting this CA.
    pub fn connect(address: SocketAddr, authority: &CertificateDer<'static>, token: &str) -> Self {
        Self::reach(address, authority, token).unwrap()
    }

    /// Connects, if the server is reachable.
    pub fn reach(
        address: SocketAddr,
        authority: &CertificateDer<'static>,
        token: &str,
    ) -> anyhow::Result<Self> {
        let client = runtime().block_on(Client::connect(address, authority, token))?;
        Ok(Self { client })
    }

    /// Returns the response. Retries when told so: Kubernetes does that for kinds that were
    /// just defined.
    #[track_caller]
    pub fn send(&self, method: &Method, path: &str, body: Option<&Value>) -> Answer {
        until(&format!("{method} {path}"), || {
            let answer = self.try_send(method, path, body);
            let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error:#}"));
            (answer.status != 429).then_some(answer)
        })
    }

    /// Returns the response, if there is one.
    pub fn try_send(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let merges = *method == Method::PATCH;
        let format = match merges {
            true => "application/merge-patch+json",
            false => "application/json",
        };
        let text = body.map(Value::to_string).unwrap_or_default();
        let headers = [("content-type", format)];
        let answer = self.client.send(method.clone(), path, &headers, text);
        runtime().block_on(answer)
    }

    /// Returns the status code.
    #[track_caller]
    pub fn code(&self, method: &Method, path: &str, body: Option<&Value>) -> u16 {
        self.send(method, path, body).status
    }

    /// Returns the object, or `None`.
    #[track_caller]
    pub fn find(&self, path: &str) -> Option<Value> {
        let answer = self.send(&Method::GET, path, None);
        match answer.status {
            200 => Some(answer.json()),
            404 => None,
            _ => panic!("GET {path}: {}", answer.text()),
        }
    }

    /// Returns the object.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let found = self.find(path);
        found.unwrap_or_else(|| panic!("there is no {path}"))
    }

    /// Returns the items of a list.
    #[track_caller]
    pub fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the names in a list.
    #[track_caller]
    pub fn names(&self, path: &str) -> Vec<String> {
        let items = self.list(path);
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        let mut names: Vec<String> = items.iter().map(name).collect();
        names.sort();
        names
    }

    /// Creates an object.
    #[track_caller]
    pub fn create(&self, path: &str, object: &Value) -> Value {
        let answer = self.send(&Method::POST, path, Some(object));
        assert_eq!(answer.status, 201, "POST {path}: {}", answer.text());
        answer.json()
    }

    /// Replaces an object.
    #[track_caller]
    pub fn replace(&self, path: &str, object: &Value) -> Value {
        let answer = self.send(&Method::PUT, path, Some(object));
        assert_eq!(answer.status, 200, "PUT {path}: {}", answer.text());
        answer.json()
    }

    /// Changes an object by a merge patch.
    #[track_caller]
    pub fn merge(&self, path: &str, patch: &Value) -> Value {
        let answer = self.send(&Method::PATCH, path, Some(patch));
        assert_eq!(answer.status, 200, "PATCH {path}: {}", answer.text());
        answer.json()
    }

    /// Deletes an object.
    #[track_caller]
    pub fn delete(&self, path: &str) {
        let answer = self.send(&Method::DELETE, path, None);
        let done = matches!(answer.status, 200 | 202);
        assert!(done, "DELETE {path}: {}", answer.text());
    }

    /// Starts a watch.
    #[track_caller]
    pub fn watch(&self, path: &str) -> Lines {
        let lines = runtime().block_on(self.client.watch(path)).unwrap();
        assert_eq!(lines.status, 200, "{path}");
        lines
    }
}
