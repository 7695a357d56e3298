//! Requests and responses of ARM, without transport.

use http::Method;
use serde_json::{Value, json};

/// A request to ARM.
#[derive(Clone, Debug)]
pub(super) struct ArmRequest {
    pub method: Method,
    pub path: String,
    pub query: Vec<(String, String)>,
    /// The body; `None` if there is none or if it is not JSON.
    pub body: Option<Value>,
    /// The header `If-Match`.
    pub if_match: Option<String>,
    /// The address of the fake, as in `https://127.0.0.1:8443`, for absolute URLs.
    pub endpoint: String,
}

/// A response of ARM or of the token service.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub content: Content,
}

/// The body of a response.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Empty,
    Json(Value),
    /// A content type and a text.
    Text(&'static str, String),
}

impl ArmRequest {
    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut all = self.query.iter();
        let found = all.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The requested version of the API; empty if there is none.
    pub fn api_version(&self) -> &str {
        self.parameter("api-version").unwrap_or_default()
    }
}

impl Response {
    pub fn empty(status: u16) -> Self {
        Self::new(status, Content::Empty)
    }

    pub fn json(status: u16, body: Value) -> Self {
        Self::new(status, Content::Json(body))
    }

    /// An error in the usual shape.
    pub fn error(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self::json(status, json!({"error": error(code, message)}))
    }

    /// An error in the shape of AKS: its fields at the top.
    pub fn bare_error(status: u16, code: &str, message: impl Into<String>) -> Self {
        let mut body = error(code, message);
        body["details"] = Value::Null;
        body["subcode"] = json!("");
        Self::json(status, body)
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds a header that may be absent.
    pub fn with_optional(self, name: &'static str, value: Option<String>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    const fn new(status: u16, content: Content) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content,
        }
    }
}

/// The content of an error object.
pub(super) fn error(code: &str, message: impl Into<String>) -> Value {
    json!({"code": code, "message": message.into()})
}

/// The 405 of a method that a resource does not have.
pub(super) fn not_allowed(method: &Method) -> Response {
    let message = format!("The requested resource does not support http method '{method}'.");
    Response::json(405, json!({"Message": message}))
}
