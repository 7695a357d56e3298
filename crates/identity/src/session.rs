//! Sessions: one login for many, checked on use, closed when nobody uses them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;

use crate::credential::{Credential, Fingerprint, Source};
use crate::endpoint::{Endpoint, Trust};
use crate::reason::Reason;

/// What a session is for. Two objects share one only if all of this is the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The space, if it is not the operator's own.
    pub space: Option<Arc<str>>,
    pub source: Source,
    pub endpoint: Endpoint,
    pub trust: Trust,
    pub fingerprint: Fingerprint,
}

/// Opens, checks and closes sessions of one sort.
pub trait Connector: Send + Sync + 'static {
    type Session: Send + Sync + 'static;
    fn log_in(
        &self,
        endpoint: &Endpoint,
        trust: &Trust,
        credential: &Credential,
    ) -> impl Future<Output = Result<Self::Session, LoginError>> + Send;
    /// Whether a session that was not used for a while is still one.
    fn is_alive(&self, session: &Self::Session)
    -> impl Future<Output = Result<bool, LoginError>> + Send;
    fn log_out(&self, session: &Self::Session) -> impl Future<Output = ()> + Send;
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoginError {
    /// InvalidCredentials, CertificateNotTrusted or Unreachable.
    pub reason: Reason,
    pub message: String,
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
    /// How many may use one endpoint at the same time.
    pub at_once: usize,
}

/// Why there is no session now.
#[derive(Clone, Debug)]
pub enum NotNow {
    /// It is being opened or checked, or too many use the endpoint: whoever asked is woken.
    Wait,
    /// It could not be opened, and is not tried before this long.
    Failed { error: LoginError, again_in: Duration },
}

/// All sessions. Nobody waits in here: whoever cannot have one now is woken when they can.
pub struct Sessions<C: Connector> {
    connector: C,
    settings: Settings,
}

/// A session in use.
pub struct Held<C: Connector> {
    session: Arc<C::Session>,
}

impl<C: Connector> Sessions<C> {
    pub fn new(connector: C, settings: Settings) -> Arc<Self> {
        Arc::new(Self { connector, settings })
    }
    /// The session for this, for whoever asks. Whoever asks uses one session at a time: one
    /// that they used before, and nobody else does, is closed.
    pub fn get(
        self: &Arc<Self>,
        asker: &Arc<str>,
        key: Key,
        credential: &Credential,
    ) -> Result<Held<C>, NotNow> {
        todo!("{asker}{key:?}{credential:?}{:?}", self.settings)
    }
    /// Whoever asked before uses none any more.
    pub fn release(self: &Arc<Self>, asker: &str) {
        todo!("{asker}")
    }
    /// Who is to ask again.
    pub fn wakes(self: &Arc<Self>) -> BoxStream<'static, Arc<str>> {
        todo!()
    }
    /// Closes all, and opens none any more.
    pub async fn close(&self) {
        todo!()
    }
    /// How many sessions are open, and how many logins, refusals and failures there were, in
    /// the text form of Prometheus.
    pub fn metrics(&self) -> String {
        todo!()
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
        todo!()
    }
    /// The other side did not answer: others are not made to wait for it.
    pub fn did_not_answer(&self) {
        todo!()
    }
}
