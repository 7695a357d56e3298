//! Sessions: one login for many, checked on use, closed when nobody uses them.
//!
//! | module | is |
//! |---|---|
//! | `table` | pure: who uses what, what is to be done next, who is to be woken |
//! | `entry` | one session and who uses it |
//! | `line` | whether an endpoint answers |
//! | `hall` | how many use an endpoint, and whose they are |
//! | `crowd` | who waits, in the order they came |

mod crowd;
mod entry;
mod hall;
mod line;
#[cfg(test)]
mod model;
mod table;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::credential::{Credential, Fingerprint, Source};
use crate::endpoint::{Endpoint, Trust};
use crate::reason::Reason;
use table::{Act, Answer, Table};

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
    pub patience: Duration,
    /// After how long without use a session is checked before it is used.
    pub check_after: Duration,
    /// How old a session may become.
    pub lifetime: Duration,
    /// How long a credential that was not taken is not tried again.
    pub refused_for: Duration,
    /// The first and the longest pause before an endpoint that did not answer is tried again.
    pub unreachable_for: (Duration, Duration),
    /// How many may use one endpoint at the same time, and three times as many all of them. Of
    /// one owner (a space, or a namespace with Secrets of its own) it is as many, and half of
    /// that at one endpoint; logins are half of it at most. A quarter of those who work is
    /// right.
    pub at_once: usize,
}

/// Why there is no session now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// It is being opened or checked, or too many use the endpoint: whoever asked is woken.
    Wait,
    /// It could not be opened, and is not tried before this long.
    Failed {
        /// Why.
        error: LoginError,
        /// When to ask again. Whoever asked may be woken before, if the endpoint answers.
        again_in: Duration,
    },
}

/// All sessions. Nobody waits in here: whoever cannot have one now is woken when they can.
///
/// Whoever is woken asks again or is released: until then, what woke them may be kept for
/// them.
pub struct Sessions<C: Connector> {
    connector: C,
    settings: Settings,
    table: Mutex<Table<C::Session>>,
    /// What is being done; none any more once all is closed.
    tasks: Mutex<Option<JoinSet<()>>>,
    /// Where it is done.
    handle: OnceLock<Handle>,
    woken: Notify,
    changed: Notify,
}

/// A session in use. It is not closed before this is dropped.
pub struct Held<C: Connector> {
    sessions: Arc<Sessions<C>>,
    key: Arc<Key>,
    id: u64,
    session: Arc<C::Session>,
}

/// How long each of the two steps of closing may take: what is being opened, then logouts.
const CLOSING: Duration = Duration::from_secs(5);

impl<C: Connector> Sessions<C> {
    /// None are open.
    pub fn new(connector: C, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            connector,
            settings,
            table: Mutex::new(Table::new(settings)),
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
        asker: &Arc<str>,
        key: Key,
        credential: &Credential,
    ) -> Result<Held<C>, NotNow> {
        if let (None, Ok(here)) = (self.handle.get(), Handle::try_current()) {
            // Whoever was faster has set the same.
            let _ = self.handle.set(here);
        }
        match self.with(|table, now| table.ask(asker, key, credential, now)) {
            Answer::Use { key, id, session } => Ok(Held {
                sessions: Arc::clone(self),
                key,
                id,
                session,
            }),
            Answer::Wait => Err(NotNow::Wait),
            Answer::Failed { error, again_in } => Err(NotNow::Failed { error, again_in }),
        }
    }

    /// Whoever asked before uses none any more.
    pub fn release(self: &Arc<Self>, asker: &str) {
        self.with(|table, now| table.release(asker, now));
    }

    /// Who is to ask again. It ends when all is closed.
    pub fn wakes(self: &Arc<Self>) -> BoxStream<'static, Arc<str>> {
        let sessions = Arc::clone(self);
        stream::unfold(sessions, |sessions| async move {
            loop {
                let (next, closed) = sessions.with(|table, _| (table.wake(), table.is_closed()));
                match next {
                    Some(asker) => return Some((asker, sessions)),
                    None if closed => return None,
                    None => sessions.woken.notified().await,
                }
            }
        })
        .boxed()
    }

    /// Closes all, and opens none any more. What is in use is closed when it is not any more,
    /// or after a while. It ends within seconds, whatever the other sides do.
    pub async fn close(self: &Arc<Self>) {
        let patience = self.settings.patience.min(CLOSING);
        self.with(|table, now| table.close(now));
        self.woken.notify_one();
        if timeout(patience, self.quiet()).await.is_err() {
            self.with(|table, now| table.close_held(now));
            if timeout(patience, self.quiet()).await.is_err() {
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
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.metrics()
    }

    /// Lets the table decide, and does what it says. The lock is held for neither.
    fn with<T>(self: &Arc<Self>, decide: impl FnOnce(&mut Table<C::Session>, Instant) -> T) -> T {
        let (decided, acts, wakes, closed) = {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            let decided = decide(&mut table, Instant::now());
            (decided, table.acts(), table.has_wakes(), table.is_closed())
        };
        for act in acts {
            self.start(act);
        }
        if wakes {
            self.woken.notify_one();
        }
        if closed {
            self.changed.notify_waiters();
        }
        decided
    }

    fn start(self: &Arc<Self>, act: Act<C::Session>) {
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
        tasks.spawn_on(async move { sessions.act(act).await }, handle);
    }

    /// Does one thing, in bounded time, and says what became of it, also if the connector
    /// panics: whoever waits for it would wait for ever.
    async fn act(self: Arc<Self>, act: Act<C::Session>) {
        match act {
            Act::LogIn {
                attempt,
                credential,
            } => {
                let key = attempt.key();
                let login = self
                    .connector
                    .log_in(&key.endpoint, &key.trust, &credential);
                let opened = self.bounded(login).await;
                self.with(|table, now| table.logged_in(&attempt, opened, now));
            }
            Act::Check { attempt, session } => {
                let alive = self.bounded(self.connector.is_alive(&session)).await;
                self.with(|table, now| table.checked(&attempt, alive, now));
            }
            Act::LogOut { key, session } => {
                let logout = self.connector.log_out(&session);
                if let Err(error) = self.bounded(logout.map(Ok)).await {
                    debug!(%error, "a session could not be closed");
                }
                self.with(|table, now| table.logged_out(&key, now));
            }
        }
    }

    async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, LoginError>>,
    ) -> Result<T, LoginError> {
        let patience = self.settings.patience;
        match timeout(patience, AssertUnwindSafe(work).catch_unwind()).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(unreachable(
                "what it answers cannot be dealt with".to_owned(),
            )),
            Err(_) => Err(unreachable(format!(
                "it did not answer within {patience:?}"
            ))),
        }
    }

    /// Ends when nothing is open, and nothing being opened or closed.
    async fn quiet(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let quiet = {
                let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
                table.is_quiet()
            };
            if quiet {
                return;
            }
            changed.await;
        }
    }
}

impl<C: Connector> std::ops::Deref for Held<C> {
    type Target = C::Session;
    fn deref(&self) -> &Self::Target {
        &self.session
    }
}

impl<C: Connector> Held<C> {
    /// The other side does not know this session any more: the next who asks gets a new one.
    pub fn is_dead(&self) {
        self.sessions
            .with(|table, now| table.dead(&self.key, self.id, now));
    }

    /// The other side did not answer. The next who asks for anything there has to wait until
    /// it was found out whether it does; nobody who works finds that out.
    pub fn did_not_answer(&self) {
        self.sessions
            .with(|table, now| table.suspect(&self.key, now));
    }

    /// The other side did what it was asked, which is more than to let somebody in: what was
    /// held against it is forgotten.
    pub fn answered(&self) {
        self.sessions.with(|table, now| table.trust(&self.key, now));
    }
}

impl<C: Connector> Drop for Held<C> {
    fn drop(&mut self) {
        self.sessions
            .with(|table, now| table.dropped(&self.key, self.id, now));
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
