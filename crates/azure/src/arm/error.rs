//! Error bodies, and how an error is retried.

mod retry;

use std::fmt;

use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

pub use retry::{Request, Retry};

/// The header with the id of a request, which Azure's support asks for.
const REQUEST_ID: &str = "x-ms-request-id";
/// The maximum length of a text of an error in characters. Conditions show it.
const MAX_TEXT: usize = 2048;
/// The maximum number of details that are kept.
const MAX_DETAILS: usize = 8;
/// The code of a subscription that does not have the provider of a resource.
const MISSING_REGISTRATION: &str = "MissingSubscriptionRegistration";

/// An error of ARM: that of a response, or of a long-running operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArmError {
    /// The status of the response. A failed operation is reported with status 200.
    pub status: StatusCode,
    /// The code, such as `ResourceGroupNotFound`; empty if there is none.
    pub code: String,
    /// The message; empty if there is none.
    pub message: String,
    /// The part of the request that is wrong.
    pub target: Option<String>,
    /// Further errors.
    pub details: Vec<Detail>,
    /// The id of the request, for Azure's support.
    pub request_id: Option<String>,
}

/// A detail of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// The code.
    pub code: String,
    /// The message.
    pub message: String,
    /// The part of the request that is wrong.
    pub target: Option<String>,
}

impl ArmError {
    /// Reads the error of a response, in any of the shapes that Azure's services have. A body that
    /// is not JSON, such as the page of a proxy, is not kept.
    pub fn of_response(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let body = serde_json::from_slice(body).unwrap_or_default();
        Self::of_body(status, headers, &body)
    }

    /// Reads the error in the body of a response, which is the operation's for a failed operation.
    pub fn of_body(status: StatusCode, headers: &HeaderMap, body: &Value) -> Self {
        let request_id = headers.get(REQUEST_ID);
        let request_id = request_id.and_then(|id| id.to_str().ok()).map(shorten);
        let top = body.as_object();
        let nested = top.and_then(|top| field(top, "error")?.as_object());
        let shape = Shape(nested.or(top));
        Self {
            status,
            code: shape.text("code"),
            message: shape.message(),
            target: shape.optional("target"),
            details: shape.details(),
            request_id,
        }
    }

    /// Returns an error without a body.
    pub fn new(status: StatusCode, code: &str, message: &str) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the provider that the subscription must be registered with before a request like
    /// this one can succeed.
    pub fn missing_provider(&self) -> Option<&str> {
        let is_missing = self.status == StatusCode::CONFLICT && self.code == MISSING_REGISTRATION;
        let provider = self
            .details
            .first()
            .and_then(|detail| detail.target.as_deref());
        let is_provider = |name: &&str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !name.is_empty() && name.bytes().all(allowed) && !name.starts_with('.')
        };
        provider.filter(|_| is_missing).filter(is_provider)
    }

    /// Returns whether the resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Returns whether a token has expired or is not accepted, so that another one may help.
    pub fn is_token_refused(&self) -> bool {
        let refused = ["ExpiredAuthenticationToken", "InvalidAuthenticationToken"];
        self.status == StatusCode::UNAUTHORIZED && refused.contains(&self.code.as_str())
    }

    /// Returns the error without a secret that the server may have repeated.
    #[must_use]
    pub(super) fn without(mut self, secret: &str) -> Self {
        let details = self.details.iter_mut().flat_map(|detail| {
            let texts = [&mut detail.code, &mut detail.message];
            texts.into_iter().chain(detail.target.as_mut())
        });
        let texts = [&mut self.code, &mut self.message].into_iter();
        for text in texts.chain(details).chain(self.target.as_mut()) {
            if !secret.is_empty() && text.contains(secret) {
                *text = text.replace(secret, "****");
            }
        }
        self
    }
}

impl fmt::Display for ArmError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code.as_str(), self.message.as_str()) {
            ("", "") => write!(out, "Azure answers HTTP {}", self.status.as_u16())?,
            ("", message) => out.write_str(message)?,
            (code, "") => out.write_str(code)?,
            (code, message) => write!(out, "{code}: {message}")?,
        }
        let known = |detail: &&Detail| {
            !detail.message.is_empty() && !self.message.contains(&detail.message)
        };
        for detail in self.details.iter().filter(known) {
            write!(out, "; {}", detail.message)?;
        }
        match &self.request_id {
            Some(id) => write!(out, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ArmError {}

/// An error object, with keys in any case.
struct Shape<'a>(Option<&'a Map<String, Value>>);

impl Shape<'_> {
    fn optional(&self, name: &str) -> Option<String> {
        let text = match field(self.0?, name)? {
            Value::String(text) => shorten(text),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        (!text.is_empty()).then_some(text)
    }

    fn text(&self, name: &str) -> String {
        self.optional(name).unwrap_or_default()
    }

    /// Returns the message; that of a problem as in RFC 7807 is its detail or its title.
    fn message(&self) -> String {
        let names = ["message", "detail", "title"];
        let mut messages = names.iter().filter_map(|name| self.optional(name));
        messages.next().unwrap_or_default()
    }

    fn details(&self) -> Vec<Detail> {
        let details = self.0.and_then(|own| field(own, "details")?.as_array());
        let details = details.into_iter().flatten().filter_map(Value::as_object);
        let read = |detail| {
            let detail = Shape(Some(detail));
            Detail {
                code: detail.text("code"),
                message: detail.message(),
                target: detail.optional("target"),
            }
        };
        details.take(MAX_DETAILS).map(read).collect()
    }
}

fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let exact = object.get(name);
    exact.or_else(|| {
        let mut fields = object.iter();
        let found = fields.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    })
}

/// Returns a text of limited length without control characters.
fn shorten(text: &str) -> String {
    let chars = text.trim().chars().take(MAX_TEXT);
    let replaced = chars.map(|char| if char.is_control() { ' ' } else { char });
    replaced.collect()
}

#[cfg(test)]
mod tests;
