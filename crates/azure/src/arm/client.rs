//! Requests with the tokens of one credential.

mod bounded;
mod list;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, IF_MATCH, USER_AGENT};
use http::request::Builder;
use http::{HeaderMap, Request, StatusCode};
use insula_identity::credential::Hidden;
use insula_operator::outbound::{HttpClient, HttpResponse, RequestError, RequestOptions};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use bounded::Bounds;

use super::error::ArmError;
use super::id::ResourceId;
use super::operation::{self, Answer, Method, OperationError, Progress};
use super::resume_token::ResumeToken;
use super::retry_after;
use super::throttle::{LimitNames, Observation, ObserveLimits, Requests};
use crate::entra::base_url::BaseUrl;
use crate::entra::{Token, TokenError, Tokens};

/// The size of the smallest value of a Secret that is removed from messages.
const MIN_SECRET_BYTES: usize = 6;
/// Tokens of further tenants.
const AUXILIARY: &str = "x-ms-authorization-auxiliary";
const RATE_LIMIT: &str = "x-ms-ratelimit-remaining-subscription-";
const REGISTRATION_VERSION: &str = "2019-05-01";
/// The characters of a query value that are not encoded.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
/// The same for actions, which may have several segments.
const ACTION: &AsciiSet = &QUERY.remove(b'/');

/// A client of ARM, with the tokens of one credential.
pub struct Client {
    /// The endpoint of ARM. Nothing is ever sent elsewhere.
    pub(super) server: BaseUrl,
    pub(super) http: HttpClient,
    pub(super) tokens: Tokens,
    /// The tokens of further tenants.
    pub(super) auxiliary: Vec<Tokens>,
    pub(super) user_agent: HeaderValue,
    /// The timeout of each request.
    pub(super) timeout: Duration,
    /// What limits the requests.
    pub(super) limits: LimitNames,
    /// The recipient of what responses say about these limits.
    pub(super) observer: Arc<dyn ObserveLimits>,
    /// Whether the subscription has accepted a request of this credential.
    pub(super) is_accepted: AtomicBool,
}

/// A response with a status of success.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The body; null if it is empty or not JSON.
    pub body: Value,
    /// What the response says about limits.
    pub limits: Limits,
}

/// What a response says about limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The number of requests of the same sort that remain for the application.
    pub remaining: Option<u64>,
    /// The number of requests of the same sort that remain for the subscription.
    pub shared_remaining: Option<u64>,
    /// The delay before the next request.
    pub retry_after: Option<Duration>,
}

/// The start or a poll of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operated {
    /// The progress.
    pub progress: Progress,
    /// What the response says about limits.
    pub limits: Limits,
}

/// Why a request failed. The messages have neither tokens nor signed URLs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFailure {
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// There is no response.
    #[error("Azure Resource Manager cannot be used: {0}")]
    Unreachable(RequestError),
    /// Azure refuses the request.
    #[error("{error}")]
    Refused {
        /// The error.
        error: Box<ArmError>,
        /// What the response says about limits.
        limits: Limits,
    },
    /// The response is not one of Azure.
    #[error("Azure's answer is invalid: {0}")]
    InvalidAnswer(&'static str),
}

impl RequestFailure {
    /// Returns Azure's error, if there is one.
    pub fn arm_error(&self) -> Option<&ArmError> {
        match self {
            Self::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Returns the failure without values that the server may have repeated. Short ones are left:
    /// they are part of many words.
    #[must_use]
    pub fn without(self, secrets: &[Hidden]) -> Self {
        let Self::Refused { error, limits } = self else {
            return self;
        };
        let texts = secrets.iter().filter_map(Hidden::text);
        let texts = texts.filter(|text| text.len() >= MIN_SECRET_BYTES);
        Self::Refused {
            error: Box::new(texts.fold(*error, ArmError::without)),
            limits,
        }
    }

    /// Returns what the response says about limits.
    pub fn limits(&self) -> Limits {
        match self {
            Self::Refused { limits, .. } => *limits,
            _ => Limits::default(),
        }
    }

    /// Returns whether the resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.arm_error().is_some_and(ArmError::is_not_found)
    }
}

/// A complete response.
struct Received {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
    /// The estimated size of the parsed body.
    size: usize,
    limits: Limits,
    /// The tokens that were sent, which must not show up in messages.
    tokens: SentTokens,
}

/// The tokens of a request.
struct SentTokens {
    own: Token,
    auxiliary: Vec<Token>,
}

impl Client {
    /// Returns the endpoint of ARM.
    pub fn server(&self) -> &BaseUrl {
        &self.server
    }

    /// Creates or updates a resource.
    ///
    /// # Errors
    ///
    /// If Azure does not accept the request.
    pub async fn put(
        &self,
        id: &ResourceId,
        api_version: &str,
        body: &Value,
    ) -> Result<Operated, RequestFailure> {
        let path = self.path(&id.url_path(), api_version);
        self.begin(Method::CreateOrUpdate, &path, Some(body)).await
    }

    /// Deletes a resource. It is no error if it does not exist.
    ///
    /// # Errors
    ///
    /// If Azure does not accept the request.
    pub async fn delete(
        &self,
        id: &ResourceId,
        api_version: &str,
    ) -> Result<Operated, RequestFailure> {
        let path = self.path(&id.url_path(), api_version);
        self.begin(Method::Delete, &path, None).await
    }

    /// Deletes a resource with further query parameters, and with a condition on its ETag.
    ///
    /// # Errors
    ///
    /// If Azure does not accept the request.
    pub async fn delete_with<'a>(
        &self,
        id: &ResourceId,
        api_version: &str,
        query: impl IntoIterator<Item = (&'a str, &'a str)>,
        if_match: &str,
    ) -> Result<Operated, RequestFailure> {
        let mut path = self.path(&id.url_path(), api_version);
        for (name, value) in query {
            let encode = |text| utf8_percent_encode(text, QUERY);
            path.push_str(&format!("&{}={}", encode(name), encode(value)));
        }
        let received = self.exchange_if(http::Method::DELETE, &path, None, Some(if_match));
        let received = received.await?;
        let progress = operation::begin(&self.server, Method::Delete, &path, received.answer());
        received.operated(progress)
    }

    /// Polls an operation once.
    ///
    /// # Errors
    ///
    /// If the operation has failed, or there is no response.
    pub async fn poll(&self, token: ResumeToken) -> Result<Operated, RequestFailure> {
        let path = token.poll.clone();
        let received = self.exchange(http::Method::GET, &path, None).await?;
        let progress = operation::advance(&self.server, token, received.answer());
        received.operated(progress)
    }

    /// Reads a resource.
    ///
    /// # Errors
    ///
    /// If it does not exist, or cannot be read.
    pub async fn get(
        &self,
        id: &ResourceId,
        api_version: &str,
    ) -> Result<Response, RequestFailure> {
        let path = self.path(&id.url_path(), api_version);
        self.exchange(http::Method::GET, &path, None)
            .await?
            .success()
    }

    /// Returns whether a resource exists, with a HEAD request.
    ///
    /// # Errors
    ///
    /// If that is not known.
    pub async fn exists(&self, id: &ResourceId, api_version: &str) -> Result<bool, RequestFailure> {
        let path = self.path(&id.url_path(), api_version);
        let received = self.exchange(http::Method::HEAD, &path, None).await?;
        match received.status {
            StatusCode::NOT_FOUND => Ok(false),
            _ => received.success().map(|_| true),
        }
    }

    /// Calls an action of a resource, such as `listKeys` or `authorizationRules/NAME/listKeys`.
    ///
    /// # Errors
    ///
    /// If Azure does not accept the request.
    pub async fn post(
        &self,
        id: &ResourceId,
        action: &str,
        api_version: &str,
        body: Option<&Value>,
    ) -> Result<Response, RequestFailure> {
        let action = utf8_percent_encode(action, ACTION);
        let path = self.path(&format!("{}/{action}", id.url_path()), api_version);
        self.exchange(http::Method::POST, &path, body)
            .await?
            .success()
    }

    /// Registers a subscription with a provider. It takes some minutes.
    ///
    /// # Errors
    ///
    /// If Azure does not accept the request.
    pub async fn register_provider(
        &self,
        subscription: &str,
        provider: &str,
    ) -> Result<Response, RequestFailure> {
        let encode = |text| utf8_percent_encode(text, QUERY).to_string();
        let (subscription, provider) = (encode(subscription), encode(provider));
        let below = format!("/subscriptions/{subscription}/providers/{provider}/register");
        let path = self.path(&below, REGISTRATION_VERSION);
        self.exchange(http::Method::POST, &path, None)
            .await?
            .success()
    }

    /// Returns the limits of responses. A Secret may name another server than the operator's own.
    fn bounds(&self) -> Bounds {
        Bounds::of(self.http.is_trusted())
    }

    fn path(&self, below: &str, api_version: &str) -> String {
        let version = utf8_percent_encode(api_version, QUERY);
        self.server
            .path_of(&format!("{below}?api-version={version}"))
    }

    async fn begin(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Operated, RequestFailure> {
        let received = self.exchange(method.http(), path, body).await?;
        let progress = operation::begin(&self.server, method, path, received.answer());
        received.operated(progress)
    }

    async fn exchange(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Received, RequestFailure> {
        self.exchange_if(method, path, body, None).await
    }

    /// Sends a request. If ARM does not accept the token, the request is repeated once with
    /// another one: a token can be revoked before it expires.
    async fn exchange_if(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
        if_match: Option<&str>,
    ) -> Result<Received, RequestFailure> {
        let received = self.exchange_once(&method, path, body, if_match).await?;
        if received.status != StatusCode::UNAUTHORIZED || !received.error().is_token_refused() {
            return Ok(received);
        }
        self.tokens.discard(&received.tokens.own);
        for (tokens, sent) in self.auxiliary.iter().zip(&received.tokens.auxiliary) {
            tokens.discard(sent);
        }
        self.exchange_once(&method, path, body, if_match).await
    }

    async fn exchange_once(
        &self,
        method: &http::Method,
        path: &str,
        body: Option<&Value>,
        if_match: Option<&str>,
    ) -> Result<Received, RequestFailure> {
        let tokens = SentTokens {
            own: self.tokens.get().await?,
            auxiliary: try_join_all(self.auxiliary.iter().map(Tokens::get)).await?,
        };
        let request = self.authorized(&tokens)?.method(method).uri(path);
        let request = if_match
            .into_iter()
            .fold(request, |request, etag| request.header(IF_MATCH, etag));
        let (request, body) = match body {
            Some(body) => (
                request.header(CONTENT_TYPE, "application/json"),
                body.to_string(),
            ),
            None => (request, String::new()),
        };
        let request = request.body(body);
        let request = request.map_err(|error| RequestFailure::Unreachable(error.into()))?;
        let bounds = self.bounds();
        let options = RequestOptions {
            max_response_kib: bounds.response_kib,
            ..RequestOptions::new(self.timeout)
        };
        let sent = self.http.send(request, options).await;
        let response = sent.map_err(RequestFailure::Unreachable)?;
        tracing::debug!(%method, status = response.status.as_u16(), "ARM request answered");
        let received = Received::new(method, &response, tokens, bounds)?;
        self.observe(method, &received);
        Ok(received)
    }

    /// Records what a response says about limits.
    fn observe(&self, method: &http::Method, received: &Received) {
        if received.status.is_success() {
            self.is_accepted.store(true, Ordering::Relaxed);
        }
        let is_accepted = self.is_accepted.load(Ordering::Relaxed);
        let limits = received.limits;
        let observation = Observation {
            requests: Requests::of(method),
            is_refused: received.status == StatusCode::TOO_MANY_REQUESTS,
            retry_after: limits.retry_after,
            remaining: limits.remaining,
            shared_remaining: limits.shared_remaining.filter(|_| is_accepted),
        };
        self.observer.observe(&self.limits, observation);
    }

    /// Returns a request with the headers that all requests have.
    fn authorized(&self, tokens: &SentTokens) -> Result<Builder, RequestFailure> {
        let request = Request::builder()
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, &self.user_agent)
            .header(AUTHORIZATION, secret(&bearer(&tokens.own))?);
        if tokens.auxiliary.is_empty() {
            return Ok(request);
        }
        let auxiliary: Vec<String> = tokens.auxiliary.iter().map(bearer).collect();
        Ok(request.header(AUXILIARY, secret(&auxiliary.join(", "))?))
    }
}

fn bearer(token: &Token) -> String {
    format!("Bearer {}", token.reveal())
}

/// Returns a header that is not shown in `Debug` output.
fn secret(text: &str) -> Result<HeaderValue, RequestFailure> {
    let value = HeaderValue::from_str(text);
    let mut value = value.map_err(|_| RequestFailure::Unreachable(RequestError::InvalidRequest))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Received {
    fn new(
        method: &http::Method,
        response: &HttpResponse,
        tokens: SentTokens,
        bounds: Bounds,
    ) -> Result<Self, RequestFailure> {
        let (body, size) = bounded::parse(&response.body, bounds)
            .map_err(|_| RequestFailure::InvalidAnswer("it has too many elements"))?;
        Ok(Self {
            status: response.status,
            headers: response.headers.clone(),
            body,
            size,
            limits: Limits {
                remaining: remaining(&response.headers, "", Requests::of(method)),
                shared_remaining: remaining(&response.headers, "global-", Requests::of(method)),
                retry_after: retry_after::parse(&response.headers, Timestamp::now()),
            },
            tokens,
        })
    }

    fn answer(&self) -> Answer<'_> {
        Answer {
            status: self.status,
            headers: &self.headers,
            body: &self.body,
            received: Timestamp::now(),
        }
    }

    fn error(&self) -> ArmError {
        ArmError::of_body(self.status, &self.headers, &self.body)
    }

    fn refused(&self, error: ArmError) -> RequestFailure {
        let auxiliary = self.tokens.auxiliary.iter().map(Token::reveal);
        let error = auxiliary.fold(error.without(self.tokens.own.reveal()), ArmError::without);
        RequestFailure::Refused {
            error: Box::new(error),
            limits: self.limits,
        }
    }

    fn success(self) -> Result<Response, RequestFailure> {
        match self.status.is_success() {
            true => Ok(Response {
                status: self.status,
                body: self.body,
                limits: self.limits,
            }),
            false => Err(self.refused(self.error())),
        }
    }

    fn operated(
        self,
        progress: Result<Progress, OperationError>,
    ) -> Result<Operated, RequestFailure> {
        match progress {
            Ok(progress) => Ok(Operated {
                progress,
                limits: self.limits,
            }),
            Err(OperationError::Failed(error)) => Err(self.refused(*error)),
            Err(OperationError::InvalidAnswer(why)) => Err(RequestFailure::InvalidAnswer(why)),
        }
    }
}

/// Returns the number of requests that remain under a limit.
fn remaining(headers: &HeaderMap, limit: &str, requests: Requests) -> Option<u64> {
    let sort = match requests {
        Requests::Reads => "reads",
        Requests::Writes => "writes",
        Requests::Deletes => "deletes",
    };
    let value = headers.get(format!("{RATE_LIMIT}{limit}{sort}"))?;
    value.to_str().ok()?.trim().parse().ok()
}

/// Returns the value of `User-Agent`, with a suffix that an administrator chose.
///
/// # Errors
///
/// If the suffix has a character that a header cannot have.
pub fn user_agent(suffix: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let own = concat!("insula-azure/", env!("CARGO_PKG_VERSION"));
    HeaderValue::from_str(format!("{own} {}", suffix.trim()).trim())
}

#[cfg(test)]
mod tests;
