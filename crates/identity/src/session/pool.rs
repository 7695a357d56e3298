//! The pool: runs the actions of the state machine and wakes requesters.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::state::{Action, PoolState};
use super::{Connector, Key, LoginError, Settings, Unavailable};
use crate::credential::Credential;

/// Timeout of each of the two steps of closing: running logins, then logouts.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A pool of sessions. No call blocks: a requester without a session is woken when it can have
/// one.
///
/// A woken requester must call `get` or `release`, because a seat may be reserved for it until
/// then.
pub struct Sessions<C: Connector> {
    connector: C,
    settings: Settings,
    inner: Mutex<Inner<C::Session>>,
    /// The runtime for the actions: sessions may be dropped outside of it.
    runtime: Handle,
    /// Notified when a requester is to be woken, and of every change once the pool is closed.
    changed: watch::Sender<()>,
}

struct Inner<S> {
    state: PoolState<S>,
    /// Running actions; `None` once the pool is closed.
    tasks: Option<JoinSet<()>>,
}

/// A session in use. It is not closed before this guard is dropped.
pub struct HeldSession<C: Connector> {
    sessions: Arc<Sessions<C>>,
    key: Arc<Key>,
    session: Arc<C::Session>,
}

impl<C: Connector> Sessions<C> {
    /// Creates an empty pool.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn new(connector: C, settings: Settings) -> Arc<Self> {
        let inner = Inner {
            state: PoolState::new(settings),
            tasks: Some(JoinSet::new()),
        };
        Arc::new(Self {
            connector,
            settings,
            inner: Mutex::new(inner),
            runtime: Handle::current(),
            changed: watch::Sender::new(()),
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
        let (key, session) =
            self.update(|state, now| state.acquire(requester, key, credential, now))?;
        let sessions = Arc::clone(self);
        Ok(HeldSession {
            sessions,
            key,
            session,
        })
    }

    /// Ends the requester's use of its session.
    pub fn release(self: &Arc<Self>, requester: &str) {
        self.update(|state, now| state.release(requester, now));
    }

    /// Returns the requesters that should call `get` again. The stream ends when the pool is
    /// closed.
    pub fn wakeups(self: &Arc<Self>) -> BoxStream<'static, Arc<str>> {
        let sessions = (Arc::clone(self), self.changed.subscribe());
        stream::unfold(sessions, |(sessions, mut changed)| async move {
            loop {
                let (woken, closed) = {
                    let state = &mut sessions.lock().state;
                    (state.next_woken(), state.is_closed())
                };
                match woken {
                    Some(requester) => return Some((requester, (sessions, changed))),
                    None if closed => return None,
                    None => changed.changed().await.ok()?,
                }
            }
        })
        .boxed()
    }

    /// Closes all sessions and refuses new ones. Held sessions are closed when they are dropped,
    /// at the latest after a timeout. Returns within seconds, whatever the servers do.
    pub async fn close(self: &Arc<Self>) {
        let step_timeout = self.settings.request_timeout.min(CLOSE_TIMEOUT);
        let mut changed = self.changed.subscribe();
        self.update(|state, _| state.close());
        let mut idle = async || {
            let idle = changed.wait_for(|()| self.lock().state.is_idle());
            timeout(step_timeout, idle).await.is_ok()
        };
        if !idle().await {
            self.update(|state, _| state.close_held());
            if !idle().await {
                debug!("session shutdown timed out");
            }
        }
        let tasks = self.lock().tasks.take();
        if let Some(mut tasks) = tasks {
            tasks.shutdown().await;
        }
    }

    /// Returns the numbers of sessions, logins, refusals and failures in the Prometheus text
    /// format.
    pub fn metrics(&self) -> String {
        self.lock().state.metrics()
    }

    /// Updates the state and starts the resulting actions.
    fn update<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut PoolState<C::Session>, Instant) -> T,
    ) -> T {
        let mut inner = self.lock();
        let Inner { state, tasks } = &mut *inner;
        let result = change(state, Instant::now());
        let actions = state.take_actions();
        if let Some(tasks) = tasks {
            while tasks.try_join_next().is_some() {}
            for action in actions {
                tasks.spawn_on(Arc::clone(self).run(action), &self.runtime);
            }
        }
        let notify = state.has_woken() || state.is_closed();
        drop(inner);
        if notify {
            self.changed.send_replace(());
        }
        result
    }

    /// Runs one action within its timeout and records the result.
    async fn run(self: Arc<Self>, action: Action<C::Session>) {
        match action {
            Action::LogIn {
                attempt,
                credential,
            } => {
                let login = self.connector.log_in(&attempt.key, &credential);
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
                self.update(|state, _| state.logged_out(&key));
            }
        }
    }

    /// Awaits a response. A panic of the connector counts as a failure, because its requesters
    /// would otherwise wait for ever.
    async fn with_timeout<T>(
        &self,
        request: impl Future<Output = Result<T, LoginError>>,
    ) -> Result<T, LoginError> {
        let request_timeout = self.settings.request_timeout;
        let request = AssertUnwindSafe(request).catch_unwind();
        match timeout(request_timeout, request).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => Err(LoginError::unreachable("the response cannot be processed")),
            Err(_) => Err(LoginError::unreachable(format!(
                "no response within {request_timeout:?}"
            ))),
        }
    }

    /// Returns whether no action is running any more.
    #[cfg(test)]
    pub(super) fn is_shut_down(&self) -> bool {
        self.lock().tasks.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<C::Session>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
            .update(|state, now| state.session_lost(&self.key, &self.session, now));
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
            .update(|state, now| state.release_session(&self.key, &self.session, now));
    }
}
