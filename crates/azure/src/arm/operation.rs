//! Long-running operations as a state machine without I/O.
//!
//! The response to a PUT or DELETE starts an operation or ends it at once ([`begin`]). The
//! operation in progress is polled, and each response continues it or ends it ([`advance`]).

use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::Value;

use super::error::ArmError;
use super::resume_token::{MAX_URL_BYTES, ResumeToken, Style};
use super::retry_after;
use crate::entra::base_url::BaseUrl;

const ASYNC_OPERATION: &str = "azure-asyncoperation";
const OPERATION_LOCATION: &str = "operation-location";
/// The state of an operation that does not say any.
const IN_PROGRESS: &str = "InProgress";
const SUCCEEDED: &str = "Succeeded";

/// The method that starts an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A PUT.
    CreateOrUpdate,
    /// A DELETE.
    Delete,
}

impl Method {
    const ALL: [Self; 2] = [Self::CreateOrUpdate, Self::Delete];

    /// Returns the value of the annotation beside that of the operation in progress.
    pub fn poller_id(self) -> &'static str {
        match self {
            Self::CreateOrUpdate => "GenericClient.CreateOrUpdateByID",
            Self::Delete => "GenericClient.DeleteByID",
        }
    }

    /// Returns the method of an annotation's value.
    pub fn of_poller_id(text: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|method| method.poller_id() == text)
    }

    pub(super) fn http(self) -> http::Method {
        match self {
            Self::CreateOrUpdate => http::Method::PUT,
            Self::Delete => http::Method::DELETE,
        }
    }

    /// Returns the type of results in the SDK for Go, which resume tokens name.
    pub(super) fn token_type(self) -> &'static str {
        match self {
            Self::CreateOrUpdate => "GenericResource",
            Self::Delete => "GenericDeleteResponse",
        }
    }
}

/// A response of ARM.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body; null if it is empty or not JSON.
    pub body: &'a Value,
    /// When it was received.
    pub received: Timestamp,
}

/// The progress of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The operation has succeeded.
    Done {
        /// The resource, if the response has it. Without it, a GET reads what a PUT has made.
        resource: Option<Value>,
    },
    /// The operation goes on.
    InProgress {
        /// The operation, to be polled.
        token: ResumeToken,
        /// The delay before the next poll, if Azure names one.
        retry_after: Option<Duration>,
    },
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// Azure says why.
    #[error(transparent)]
    Failed(Box<ArmError>),
    /// The response cannot be understood.
    #[error("Azure's answer is invalid: {0}")]
    InvalidAnswer(&'static str),
}

impl From<ArmError> for OperationError {
    fn from(error: ArmError) -> Self {
        Self::Failed(Box::new(error))
    }
}

/// The outcome of a state.
enum State {
    Succeeded,
    Failed,
    InProgress,
}

impl State {
    fn of(text: &str) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "succeeded" => Self::Succeeded,
            "failed" | "canceled" => Self::Failed,
            // Services have many states of their own.
            _ => Self::InProgress,
        }
    }
}

/// Continues with the response to a PUT or DELETE of a resource with this path and query.
///
/// # Errors
///
/// If the operation has failed.
pub fn begin(
    server: &BaseUrl,
    method: Method,
    path: &str,
    answer: Answer<'_>,
) -> Result<Progress, OperationError> {
    let is_success = match (method, answer.status.as_u16()) {
        // The resource did not exist.
        (Method::Delete, 204 | 404) => return Ok(Progress::Done { resource: None }),
        (Method::CreateOrUpdate, 200..=202 | 204) | (Method::Delete, 200 | 202) => true,
        _ => false,
    };
    if !is_success {
        return Err(answer.error().into());
    }
    let (style, poll, state) = match answer.url_to_poll(server, method) {
        Some(found) => found,
        None => {
            let state = answer.state_without_url(method)?;
            (Style::Body, path.to_owned(), state)
        }
    };
    let is_resource = style == Style::Body && method == Method::CreateOrUpdate;
    let token = ResumeToken {
        method,
        style,
        poll,
        original: Some(path.to_owned()),
        state: state.to_owned(),
    };
    answer.conclude(token, answer.resource().filter(|_| is_resource))
}

/// Continues an operation with the response to a poll.
///
/// # Errors
///
/// If the operation has failed.
pub fn advance(
    server: &BaseUrl,
    mut token: ResumeToken,
    answer: Answer<'_>,
) -> Result<Progress, OperationError> {
    // These say nothing about the operation.
    if matches!(answer.status.as_u16(), 408 | 429 | 500 | 502..=504) {
        let retry_after = answer.retry_after();
        return Ok(Progress::InProgress { token, retry_after });
    }
    let state = match answer.status.as_u16() {
        204 => Some(SUCCEEDED),
        // Some resources can be written and not be read.
        405 if token.style == Style::Body => Some(SUCCEEDED),
        200..300 => answer.polled_state(token.style),
        _ => return Err(answer.error().into()),
    };
    let why = "the operation has no status";
    let state = state.ok_or(OperationError::InvalidAnswer(why))?;
    token.state = state.chars().take(100).collect();
    if token.style == Style::Location {
        // The new URL has a new signature. The old one stays valid.
        let moved = answer.url(server, LOCATION.as_str());
        token.poll = moved.unwrap_or(token.poll);
    }
    let resource = answer.resource().filter(|_| token.style == Style::Body);
    answer.conclude(token, resource)
}

impl<'a> Answer<'a> {
    /// Returns how a first response asks to be polled: the style, the path and query, and the
    /// state.
    fn url_to_poll(self, server: &BaseUrl, method: Method) -> Option<(Style, String, &'a str)> {
        // An accepted request leaves the resource as it was, so its state is an old one. So may be
        // the state of a failed resource that is repaired.
        let is_current = |state: &&str| {
            method == Method::CreateOrUpdate
                && self.status != StatusCode::ACCEPTED
                && !matches!(State::of(state), State::Failed)
        };
        let state = self.provisioning_state().filter(is_current);
        let state = state.unwrap_or(IN_PROGRESS);
        if let Some(url) = self.url(server, ASYNC_OPERATION) {
            return Some((Style::AsyncOperation, url, state));
        }
        if let Some(url) = self.url(server, OPERATION_LOCATION) {
            let state = self.status_text().unwrap_or(IN_PROGRESS);
            return Some((Style::OperationLocation, url, state));
        }
        let url = self.url(server, LOCATION.as_str())?;
        (!self.has_own_path(method)).then_some((Style::Location, url, state))
    }

    /// Returns the state of the resource in a first response without a URL to poll.
    fn state_without_url(self, method: Method) -> Result<&'a str, OperationError> {
        match (method, self.status.as_u16(), self.provisioning_state()) {
            (Method::Delete, 202, _) => {
                let why = "an operation was accepted without a URL to poll";
                Err(OperationError::InvalidAnswer(why))
            }
            (Method::Delete, ..) | (_, 204, _) | (_, 200, None) => Ok(SUCCEEDED),
            (_, 200 | 201, Some(state)) => Ok(state),
            (_, 201, None) if self.has_own_path(method) => Ok(SUCCEEDED),
            _ => Ok(IN_PROGRESS),
        }
    }

    /// Returns whether the response is the resource with its own path: managed identities answer
    /// so to a PUT.
    fn has_own_path(self, method: Method) -> bool {
        let location = self.header(LOCATION.as_str());
        method == Method::CreateOrUpdate
            && self.body["id"].is_string()
            && location.is_some_and(is_relative)
    }

    /// Returns the progress of an operation in a state. `resource` is the result if it is done.
    fn conclude(
        self,
        token: ResumeToken,
        resource: Option<Value>,
    ) -> Result<Progress, OperationError> {
        match State::of(&token.state) {
            State::Succeeded => Ok(Progress::Done { resource }),
            State::Failed => Err(self.failure(&token.state).into()),
            State::InProgress => Ok(Progress::InProgress {
                retry_after: self.retry_after(),
                token,
            }),
        }
    }

    /// Returns the state in the response to a poll.
    fn polled_state(self, style: Style) -> Option<&'a str> {
        let of_status = match self.status == StatusCode::ACCEPTED {
            true => IN_PROGRESS,
            false => SUCCEEDED,
        };
        match style {
            Style::AsyncOperation | Style::OperationLocation => {
                let state = self.status_text().or_else(|| self.provisioning_state());
                state.or((self.status == StatusCode::ACCEPTED).then_some(IN_PROGRESS))
            }
            // The state of a resource that is being deleted may still be its last one.
            Style::Location if self.status == StatusCode::ACCEPTED => Some(IN_PROGRESS),
            Style::Location => Some(self.provisioning_state().unwrap_or(of_status)),
            Style::Body => Some(self.provisioning_state().unwrap_or(of_status)),
        }
    }

    fn status_text(self) -> Option<&'a str> {
        let status = self.body["status"].as_str();
        status.filter(|status| !status.is_empty())
    }

    fn provisioning_state(self) -> Option<&'a str> {
        let state = self.body["properties"]["provisioningState"].as_str();
        state.filter(|state| !state.is_empty())
    }

    fn resource(self) -> Option<Value> {
        self.body["id"].is_string().then(|| self.body.clone())
    }

    fn header(self, name: &str) -> Option<&'a str> {
        let value = self.headers.get(name)?.to_str().ok()?;
        (!value.is_empty() && value.len() <= MAX_URL_BYTES).then_some(value)
    }

    /// Returns the path and query of a URL in a header. A URL of another server is ignored: it
    /// must never be sent a token.
    fn url(self, server: &BaseUrl, name: &str) -> Option<String> {
        let url = self.header(name)?;
        match is_relative(url) {
            true => server.path_within(&server.absolute(url)).ok(),
            false => server.path_within(url).ok(),
        }
    }

    fn retry_after(self) -> Option<Duration> {
        retry_after::parse(self.headers, self.received)
    }

    fn error(self) -> ArmError {
        ArmError::of_body(self.status, self.headers, self.body)
    }

    /// Returns the error of an operation that has failed.
    fn failure(self, state: &str) -> ArmError {
        let nested = Some(self.body["properties"]["error"].clone()).filter(Value::is_object);
        let mut error = match nested {
            Some(nested) if self.body["error"].is_null() => {
                ArmError::of_body(self.status, self.headers, &nested)
            }
            _ => self.error(),
        };
        if error.code.is_empty() && error.message.is_empty() {
            error.message = format!("the operation ended as {state}");
        }
        error
    }
}

/// Returns whether a URL is a path. `//host/path` is another server.
fn is_relative(url: &str) -> bool {
    url.starts_with('/') && !url.starts_with("//")
}

#[cfg(test)]
mod tests;
