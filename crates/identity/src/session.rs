//! Sessions: one login for many, checked on use, closed when nobody uses them.
//!
//! | module | is |
//! |---|---|
//! | `state` | pure: who uses what, what is to be done next, who is to be woken |
//! | `entry` | one session and who uses it |
//! | `line` | whether an endpoint answers |
//! | `limits` | how many use an endpoint, and whose they are |
//! | `queue` | who waits, in the order they came |

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

/// What a session is for. Two objects share one only if all of this is the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The space, if it is not the operator's own.
    pub space: Option<Arc<str>>,
    /// Where the credential is from.
    pub source: Source,
    /// Where it is sent.
    pub endpoint: Endpoint,
    /// Whom to believe there.
    pub trust: Trust,
    /// What is sent.
    pub fingerprint: Fingerprint,
}

/// Opens, checks and closes sessions of one sort.
pub trait Connector: Send + Sync + 'static {
    /// A session.
    type Session: Send + Sync + 'static;
    /// Opens one.
    fn log_in(
        &self,
        endpoint: &Endpoint,
        trust: &Trust,
        credential: &Credential,
    ) -> impl Future<Output = Result<Self::Session, LoginError>> + Send;
    /// Whether a session that was not used for a while is still one.
    fn is_alive(
        &self,
        session: &Self::Session,
    ) -> impl Future<Output = Result<bool, LoginError>> + Send;
    /// Closes one. Nobody asks what became of it.
    fn log_out(&self, session: &Self::Session) -> impl Future<Output = ()> + Send;
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoginError {
    /// InvalidCredentials, CertificateNotTrusted or Unreachable.
    pub reason: Reason,
    /// A sentence about it, without what was sent.
    pub message: String,
    /// Whether the other side answered: then it is this credential that is left alone, and
    /// not the endpoint.
    pub answered: bool,
}

/// How sessions are kept.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a login, a check or a logout may take.
    pub request_timeout: Duration,
    /// After how long without use a session is checked before it is used.
    pub check_after: Duration,
    /// How old a session may become.
    pub lifetime: Duration,
    /// How long a credential that was not taken is not tried again.
    pub refused_backoff: Duration,
    /// The first and the longest pause before an endpoint that did not answer is tried again.
    pub unreachable_backoff: (Duration, Duration),
    /// How many may use one endpoint at the same time, and three times as many all of them. Of
    /// one owner (a space, or a namespace with Secrets of its own) it is as many, and half of
    /// that at one endpoint; logins are half of it at most. A quarter of those who work is
    /// right.
    pub max_per_endpoint: usize,
}

/// Why there is no session now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// It is being opened or checked, or too many use the endpoint: whoever asked is woken.
    Wait,
    /// It could not be opened, and is not tried before this long.
    Failed {
        /// Why.
        error: LoginError,
        /// When to ask again. Whoever asked may be woken before, if the endpoint answers.
        retry_after: Duration,
    },
}

/// All sessions. Nobody waits in here: whoever cannot have one now is woken when they can.
///
/// Whoever is woken asks again or is released: until then, what woke them may be kept for
/// them.
pub struct Sessions<C: Connector> {
    connector: C,
    settings: Settings,
    state: Mutex<PoolState<C::Session>>,
    /// What is being done; none any more once all is closed.
    tasks: Mutex<Option<JoinSet<()>>>,
    /// Where it is done.
    handle: OnceLock<Handle>,
    woken: Notify,
    changed: Notify,
}

/// A session in use. It is not closed before this is dropped.
pub struct HeldSession<C: Connector> {
    sessions: Arc<Sessions<C>>,
    key: Arc<Key>,
    id: u64,
    session: Arc<C::Session>,
}

/// How long each of the two steps of closing may take: what is being opened, then logouts.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

impl<C: Connector> Sessions<C> {
    /// None are open.
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

    /// The session for this, for whoever asks. Whoever asks uses one session at a time: one
    /// that they used before, and nobody else does, is closed.
    ///
    /// # Errors
    ///
    /// If there is none now. Whoever is to wait is woken, and asks again or is released then.
    pub fn get(
        self: &Arc<Self>,
        requester: &Arc<str>,
        key: Key,
        credential: &Credential,
    ) -> Result<HeldSession<C>, Unavailable> {
        if let (None, Ok(here)) = (self.handle.get(), Handle::try_current()) {
            // Whoever was faster has set the same.
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

    /// Whoever asked before uses none any more.
    pub fn release(self: &Arc<Self>, requester: &str) {
        self.update(|state, now| state.release(requester, now));
    }

    /// Who is to ask again. It ends when all is closed.
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
                        // Somebody else may have to be woken before.
                        drop(timeout_at(at, sessions.woken.notified()).await);
                    }
                    (None, None) => sessions.woken.notified().await,
                }
            }
        })
        .boxed()
    }

    /// Closes all, and opens none any more. What is in use is closed when it is not any more,
    /// or after a while. It ends within seconds, whatever the other sides do.
    pub async fn close(self: &Arc<Self>) {
        let request_timeout = self.settings.request_timeout.min(CLOSE_TIMEOUT);
        self.update(|state, now| state.close(now));
        self.woken.notify_one();
        if timeout(request_timeout, self.idle()).await.is_err() {
            self.update(|state, now| state.close_held(now));
            if timeout(request_timeout, self.idle()).await.is_err() {
                debug!("some sessions could not be closed in time");
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

    /// How many sessions are open, and how many logins, refusals and failures there were, in
    /// the text form of Prometheus.
    pub fn metrics(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.metrics()
    }

    /// Lets the table decide, and does what it says. The lock is held for neither.
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
            // Nobody has asked from where tasks can run, so there is nothing to be done.
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

    /// Does one thing, in bounded time, and says what became of it, also if the connector
    /// panics: whoever waits for it would wait for ever.
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
                    debug!(%error, "a session could not be closed");
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

    /// Ends when nothing is open, and nothing being opened or closed.
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
    /// The other side does not know this session any more: the next who asks gets a new one.
    pub fn mark_dead(&self) {
        self.sessions
            .update(|state, now| state.session_lost(&self.key, self.id, now));
    }

    /// The other side did not answer. The next who asks for anything there has to wait until
    /// it was found out whether it does; nobody who works finds that out.
    pub fn mark_unresponsive(&self) {
        self.sessions
            .update(|state, now| state.mark_suspect(&self.key, now));
    }

    /// The other side did what it was asked, which is more than to let somebody in: what was
    /// held against it is forgotten.
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
