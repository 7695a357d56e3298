//! The manners of ARM, without transport.

mod kinds;
mod lists;
mod operations;
mod refusals;

use http::Method;
use serde_json::{Value, json};

use super::handle::pairs;
use super::journal::Caller;
use super::message::{ArmRequest, Content, Response};
use super::state::ArmState;

const GROUP: &str = "/subscriptions/S/resourceGroups/G";
const ENDPOINT: &str = "https://127.0.0.1:1";

/// ARM with the subscription `S`, the group `G`, and a client that may use both.
struct Bench {
    arm: ArmState,
    caller: Caller,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            arm: ArmState::default(),
            caller: caller("green"),
        };
        bench.arm.subscriptions.add("S", "T");
        bench.arm.subscriptions.grant("green", "S");
        let created = bench.put(GROUP, json!({"location": "westus2"}));
        assert_eq!(created.status, 201);
        bench
    }

    fn send(&mut self, method: Method, url: &str, body: Option<Value>) -> Response {
        let url = url.strip_prefix(ENDPOINT).unwrap_or(url);
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let request = ArmRequest {
            method,
            path: path.to_owned(),
            query: pairs(query),
            body,
            if_match: None,
            endpoint: ENDPOINT.to_owned(),
        };
        self.arm.decide(&request, &self.caller)
    }

    fn put(&mut self, id: &str, body: Value) -> Response {
        self.send(Method::PUT, &versioned(id), Some(body))
    }

    fn get(&mut self, id: &str) -> Response {
        self.send(Method::GET, &versioned(id), None)
    }

    fn delete(&mut self, id: &str) -> Response {
        self.send(Method::DELETE, &versioned(id), None)
    }

    fn post(&mut self, id: &str) -> Response {
        self.send(Method::POST, &versioned(id), None)
    }

    /// Requests a URL as it is.
    fn poll(&mut self, url: &str) -> Response {
        self.send(Method::GET, url, None)
    }

    /// Puts a resource, and polls until it is done.
    fn create(&mut self, id: &str, body: Value) -> Value {
        let response = self.put(id, body);
        assert!(response.status < 300, "{response:?}");
        for _ in 0..10 {
            self.arm
                .observe_resource(&super::path::ArmId::parse(id).unwrap());
        }
        self.get(id).value()
    }
}

impl Response {
    fn value(&self) -> Value {
        match &self.content {
            Content::Json(value) => value.clone(),
            _ => Value::Null,
        }
    }

    fn code(&self) -> String {
        let body = self.value();
        let code = body["error"]["code"]
            .as_str()
            .or_else(|| body["code"].as_str());
        code.unwrap_or_default().to_owned()
    }

    fn header(&self, name: &str) -> Option<String> {
        let found = self.headers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    }
}

fn caller(client: &str) -> Caller {
    Caller {
        tenant: "T".to_owned(),
        client: client.to_owned(),
        principal: format!("{client}-principal"),
        ..Caller::default()
    }
}

fn versioned(id: &str) -> String {
    format!("{id}?api-version=2024-03-01")
}

fn within(rest: &str) -> String {
    format!("{GROUP}/providers/{rest}")
}
