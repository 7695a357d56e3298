//! A pool of sessions: one login shared by many requesters, checked before use after idling,
//! closed after the last requester leaves.
//!
//! | module | is |
//! |---|---|
//! | `state` | the pure state machine: sessions, requesters, pending actions, wakeups |
//! | `entry` | one session and its requesters |
//! | `endpoint_health` | a circuit breaker per endpoint, with one probe at a time |
//! | `concurrency` | bounded concurrency per endpoint and per owner |
//! | `wait_queue` | requesters in order of arrival |

mod concurrency;
mod endpoint_health;
mod entry;
#[cfg(test)]
mod model;
mod state;
#[cfg(test)]
mod tests;
mod wait_queue;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;

use crate::credential::{Credential, Fingerprint, Source};
use crate::endpoint::{Endpoint, Trust};
use crate::reason::Reason;
use state::{Action, Answer, PoolState};

/// The key of a session. Requesters share a session only if their keys are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The tenant's space, or none for the operator's own.
    pub space: Option<Arc<str>>,
    /// The source of the credential.
    pub source: Source,
    /// The server that the credential is sent to.
    pub endpoint: Endpoint,
    /// The server certificates that are accepted.
    pub trust: Trust,
    /// A digest of the credential.
    pub fingerprint: Fingerprint,
}

/// Opens, checks and closes the sessions of one provider.
pub trait Connector: Send + Sync + 'static {
    /// A session of the provider.
    type Session: Send + Sync + 'static;
    /// Logs in.
    fn log_in(
        &self,
        endpoint: &Endpoint,
        trust: &Trust,
        credential: &Credential,
    ) -> impl Future<Output = Result<Self::Session, LoginError>> + Send;
    /// Returns whether the server still knows a session that was idle.
    fn is_alive(
        &self,
        session: &Self::Session,
    ) -> impl Future<Output = Result<bool, LoginError>> + Send;
    /// Logs out. Failures are ignored.
    fn log_out(&self, session: &Self::Session) -> impl Future<Output = ()> + Send;
}

/// A failed login or check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoginError {
    /// One of InvalidCredentials, CertificateNotTrusted and Unreachable.
    pub reason: Reason,
    /// A sentence about the failure, without the credential.
    pub message: String,
    /// Whether the server responded. If so, the backoff applies to this credential and not to
    /// the endpoint.
    pub answered: bool,
}

/// Timeouts and limits of the pool.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Timeout of a login, a check or a logout.
    pub request_timeout: Duration,
    /// Idle time after which a session is checked before use.
    pub check_after: Duration,
    /// Maximum age of a session.
    pub lifetime: Duration,
    /// Time for which a refused credential is not tried again.
    pub refused_backoff: Duration,
    /// Minimum and maximum backoff of an unreachable endpoint.
    pub unreachable_backoff: (Duration, Duration),
    /// Maximum number of concurrent users of one endpoint; the maximum over all endpoints is
    /// three times as high. One owner (a space, or a namespace with Secrets of its own) may have
    /// as many over all endpoints and half of that at one; logins may have half of it. A quarter
    /// of the number of workers is a good value.
    pub max_per_endpoint: usize,
}

/// The reason why no session is available now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The session is being opened or checked, or the endpoint is at its limit: the requester
    /// will be woken.
    Wait,
    /// The login failed and is not retried before this time.
    Failed {
        /// The failure.
        error: LoginError,
        /// When to retry. The requester may be woken earlier, if the endpoint recovers.
        retry_after: Duration,
    },
}

/// A pool of sessions. No call blocks: a requester without a session is woken when it can have
/// one.
///
/// A woken requester must call `get` or `release`, because a seat may be reserved for it until
/// then.
pub struct Sessions<C: Connector> {
    connector: C,
    settings: Settings,
    state: Mutex<PoolState<C::Session>>,
    /// Running actions; `None` once the pool is closed.
    tasks: Mutex<Option<JoinSet<()>>>,
    /// The runtime for the actions.
    handle: OnceLock<Handle>,
    woken: Notify,
    changed: Notify,
}

/// A session in use. It is not closed before this guard is dropped.
pub struct HeldSession<C: Connector> {
    sessions: Arc<Sessions<C>>,
    key: Arc<Key>,
    id: u64,
    session: Arc<C::Session>,
}

/// Timeout of each of the two steps of closing: running logins, then logouts.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

impl<C: Connector> Sessions<C> {
    /// Creates an empty pool.
    pub fn new(connector: C, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            connector,
            settings,
            state: Mutex::new(PoolState::new(settings)),
            tasks: Mutex::new(Some(JoinSet::new())),
            handle: OnceLock::new(),
            woken: Notify::new(),
            changed: Notify::new(),
        })
    }

    /// Returns the session for this key. A requester uses one session at a time: its previous
    /// session is closed if it has no other requester.
    ///
    /// # Errors
    ///
    /// If no session is available now. A requester that has to wait is woken, and then calls
    /// `get` again or `release`.
    pub fn get(
        self: &Arc<Self>,
        requester: &Arc<str>,
        key: Key,
        credential: &Credential,
    ) -> Result<HeldSession<C>, Unavailable> {
        if let (None, Ok(here)) = (self.handle.get(), Handle::try_current()) {
            // A concurrent call has set the same handle.
            let _ = self.handle.set(here);
        }
        match self.update(|state, now| state.acquire(requester, key, credential, now)) {
            Answer::Use { key, id, session } => Ok(HeldSession {
                sessions: Arc::clone(self),
                key,
                id,
                session,
            }),
            Answer::Wait => Err(Unavailable::Wait),
            Answer::Failed { error, retry_after } => {
                Err(Unavailable::Failed { error, retry_after })
            }
        }
    }

    /// Ends the requester's use of its session.
    pub fn release(self: &Arc<Self>, requester: &str) {
        self.update(|state, now| state.release(requester, now));
    }

    /// Returns the requesters that should call `get` again. The stream ends when the pool is
    /// closed.
    pub fn wakeups(self: &Arc<Self>) -> BoxStream<'static, Arc<str>> {
        let sessions = Arc::clone(self);
        stream::unfold(sessions, |sessions| async move {
            loop {
                let (woken, next, closed) = sessions
                    .update(|state, now| (state.wake(now), state.next_wake(), state.is_closed()));
                match (woken, next) {
                    (Some(requester), _) => return Some((requester, sessions)),
                    (None, _) if closed => return None,
                    (None, Some(at)) => {
                        // Another requester may become due earlier.
                        drop(timeout_at(at, sessions.woken.notified()).await);
                    }
                    (None, None) => sessions.woken.notified().await,
                }
            }
        })
        .boxed()
    }

    /// Closes all sessions and refuses new ones. Held sessions are closed when they are dropped,
    /// at the latest after a timeout. Returns within seconds, whatever the servers do.
    pub async fn close(self: &Arc<Self>) {
        let request_timeout = self.settings.request_timeout.min(CLOSE_TIMEOUT);
        self.update(|state, now| state.close(now));
        self.woken.notify_one();
        if timeout(request_timeout, self.idle()).await.is_err() {
            self.update(|state, now| state.close_held(now));
            if timeout(request_timeout, self.idle()).await.is_err() {
                debug!("session shutdown timed out");
            }
        }
        let tasks = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut tasks) = tasks {
            tasks.shutdown().await;
        }
    }

    /// Returns the numbers of sessions, logins, refusals and failures in the Prometheus text
    /// format.
    pub fn metrics(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.metrics()
    }

    /// Updates the state and starts the resulting actions. The lock is not held while they
    /// start.
    fn update<T>(
        self: &Arc<Self>,
        decide: impl FnOnce(&mut PoolState<C::Session>, Instant) -> T,
    ) -> T {
        let (decided, actions, wakeups, closed) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let decided = decide(&mut state, now);
            let wakeups = state.next_wake().is_some_and(|at| at <= now);
            (decided, state.take_actions(), wakeups, state.is_closed())
        };
        for action in actions {
            self.start(action);
        }
        if wakeups {
            self.woken.notify_one();
        }
        if closed {
            self.changed.notify_waiters();
        }
        decided
    }

    fn start(self: &Arc<Self>, action: Action<C::Session>) {
        let Some(handle) = self.handle.get() else {
            // No call came from within a runtime, so no session exists.
            return;
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tasks) = &mut *tasks else {
            return;
        };
        while tasks.try_join_next().is_some() {}
        let sessions = Arc::clone(self);
        tasks.spawn_on(async move { sessions.action(action).await }, handle);
    }

    /// Runs one action within its timeout and records the result. A panic of the connector
    /// counts as a failure, because its requesters would otherwise wait for ever.
    async fn action(self: Arc<Self>, action: Action<C::Session>) {
        match action {
            Action::LogIn {
                attempt,
                credential,
            } => {
                let key = attempt.key();
                let login = self
                    .connector
                    .log_in(&key.endpoint, &key.trust, &credential);
                let opened = self.with_timeout(login).await;
                self.update(|state, now| state.logged_in(&attempt, opened, now));
            }
            Action::Check { attempt, session } => {
                let alive = self.with_timeout(self.connector.is_alive(&session)).await;
                self.update(|state, now| state.checked(&attempt, alive, now));
            }
            Action::LogOut { key, session } => {
                let logout = self.connector.log_out(&session);
                if let Err(error) = self.with_timeout(logout.map(Ok)).await {
                    debug!(%error, "session logout failed");
                }
                self.update(|state, now| state.logged_out(&key, now));
            }
        }
    }

    async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, LoginError>>,
    ) -> Result<T, LoginError> {
        let request_timeout = self.settings.request_timeout;
        match timeout(request_timeout, AssertUnwindSafe(work).catch_unwind()).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(unreachable(
                "what it answers cannot be dealt with".to_owned(),
            )),
            Err(_) => Err(unreachable(format!(
                "it did not answer within {request_timeout:?}"
            ))),
        }
    }

    /// Waits until no session is open, being opened or being closed.
    async fn idle(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let idle = {
                let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.is_idle()
            };
            if idle {
                return;
            }
            changed.await;
        }
    }
}

impl<C: Connector> std::ops::Deref for HeldSession<C> {
    type Target = C::Session;
    fn deref(&self) -> &Self::Target {
        &self.session
    }
}

impl<C: Connector> HeldSession<C> {
    /// Reports that the server does not know this session any more. The next requester gets a
    /// new one.
    pub fn mark_dead(&self) {
        self.sessions
            .update(|state, now| state.session_lost(&self.key, self.id, now));
    }

    /// Reports that the server did not respond. Further requesters of the endpoint wait for a
    /// probe.
    pub fn mark_unresponsive(&self) {
        self.sessions
            .update(|state, now| state.mark_suspect(&self.key, now));
    }

    /// Reports that the server completed a request, which proves more than a login does: the
    /// endpoint is no longer suspect.
    pub fn mark_responsive(&self) {
        self.sessions
            .update(|state, now| state.clear_suspect(&self.key, now));
    }
}

impl<C: Connector> Drop for HeldSession<C> {
    fn drop(&mut self) {
        self.sessions
            .update(|state, now| state.release_session(&self.key, self.id, now));
    }
}

fn unreachable(message: String) -> LoginError {
    let reason = Reason::Unreachable;
    LoginError {
        reason,
        message,
        answered: false,
    }
}
