//! The token of an account, cached and renewed.
//!
//! A token is renewed some minutes before it expires, in a task of its own, and the old one is used
//! meanwhile. All callers share one request, and its failure, so that a silent authority delays
//! each caller by one timeout at most. Accounts share nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use insula_identity::credential::Hidden;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::error::TokenError;

/// How long before its expiry a token is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(300);
/// How long before its expiry a token is not used any more: a request takes time.
const EXPIRY_MARGIN: Duration = Duration::from_secs(30);
/// How long a failure is reported without another attempt.
const FAILURE_RETENTION: Duration = Duration::from_secs(5);
/// The maximum lifetime of a token that is believed.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum length of a token in bytes.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// A bearer token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    text: Hidden,
    renew_at: Instant,
    expires: Instant,
}

impl Token {
    /// Creates a token with this lifetime from now.
    pub fn new(text: &str, lifetime: Duration) -> Option<Self> {
        let is_token = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token || text.is_empty() || text.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (now, lifetime) = (Instant::now(), lifetime.min(MAX_LIFETIME));
        // A token of a short life is renewed halfway.
        let renew = lifetime.saturating_sub(RENEW_BEFORE).max(lifetime / 2);
        Some(Self {
            text: Hidden::new(text),
            renew_at: now + renew,
            expires: now + lifetime,
        })
    }

    /// Reads a response. The metadata service has numbers as texts.
    pub(super) fn of_response(body: &Value) -> Option<Self> {
        let seconds = match &body["expires_in"] {
            Value::String(text) => text.trim().parse().ok()?,
            number => number.as_u64()?,
        };
        Self::new(body["access_token"].as_str()?, Duration::from_secs(seconds))
    }

    /// Returns the text, to be sent.
    pub fn reveal(&self) -> &str {
        self.text.text().unwrap_or_default()
    }

    fn is_usable(&self, now: Instant) -> bool {
        now + EXPIRY_MARGIN < self.expires
    }
}

/// Requests a token.
pub trait Fetch: Send + Sync + 'static {
    /// Requests a token.
    fn fetch(&self) -> BoxFuture<'_, Result<Token, TokenError>>;

    /// Returns the name of the server for messages.
    fn server(&self) -> String;
}

/// The token of one account for one audience.
#[derive(Clone)]
pub struct Tokens(Arc<Shared>);

struct Shared {
    fetch: Box<dyn Fetch>,
    timeout: Duration,
    state: Mutex<State>,
}

/// The result of a request, when there is one.
type Outcome = watch::Receiver<Option<Result<Token, TokenError>>>;

#[derive(Default)]
struct State {
    token: Option<Token>,
    request: Option<Outcome>,
    failure: Option<(Instant, TokenError)>,
}

impl Tokens {
    /// Creates a cache. A request, with all its attempts, is given up after `timeout`.
    pub fn new(fetch: impl Fetch, timeout: Duration) -> Self {
        Self(Arc::new(Shared {
            fetch: Box::new(fetch),
            timeout,
            state: Mutex::default(),
        }))
    }

    /// Returns a token that can be used now.
    ///
    /// # Errors
    ///
    /// If there is none, and none can be obtained.
    pub async fn get(&self) -> Result<Token, TokenError> {
        let mut request = match self.current(Instant::now()) {
            Ok(token) => return token,
            Err(request) => request,
        };
        let outcome = request.wait_for(Option::is_some).await;
        let outcome = outcome.ok().and_then(|outcome| outcome.clone());
        // The request ends without a result only if the runtime is shut down, or if it panics.
        outcome.unwrap_or_else(|| Err(self.0.unreachable("the request was cancelled")))
    }

    /// Forgets a token that the server did not accept, unless there is another one already.
    pub fn discard(&self, token: &Token) {
        let mut state = self.0.lock();
        if state.token.as_ref() == Some(token) {
            state.token = None;
        }
    }

    /// Returns the token or the failure, if it is known, or else the request to wait for.
    fn current(&self, now: Instant) -> Result<Result<Token, TokenError>, Outcome> {
        let mut state = self.0.lock();
        if state
            .request
            .as_ref()
            .is_some_and(|request| request.has_changed().is_err())
        {
            state.request = None;
        }
        let failure = state.failure.clone();
        let failure = failure.filter(|(since, _)| now < *since + FAILURE_RETENTION);
        let usable = state.token.clone().filter(|token| token.is_usable(now));
        match (usable, failure) {
            (Some(token), failure) => {
                if token.renew_at <= now && failure.is_none() && state.request.is_none() {
                    state.request = Some(self.request());
                }
                Ok(Ok(token))
            }
            (None, Some((_, error))) => Ok(Err(error)),
            (None, None) => Err(state.request.get_or_insert_with(|| self.request()).clone()),
        }
    }

    /// Requests a token in a task, which outlives its callers.
    fn request(&self) -> Outcome {
        let (sender, receiver) = watch::channel(None);
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let fetched = timeout(shared.timeout, shared.fetch.fetch()).await;
            let fetched = fetched.unwrap_or_else(|_| {
                let seconds = shared.timeout.as_secs_f32();
                Err(shared.unreachable(&format!("no answer within {seconds} s")))
            });
            let mut state = shared.lock();
            match &fetched {
                Ok(token) => {
                    state.token = Some(token.clone());
                    state.failure = None;
                }
                Err(error) => state.failure = Some((Instant::now(), error.clone())),
            }
            state.request = None;
            drop(state);
            sender.send_replace(Some(fetched));
        });
        receiver
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreachable(&self, why: &str) -> TokenError {
        TokenError::Unreachable {
            server: self.fetch.server(),
            why: why.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
