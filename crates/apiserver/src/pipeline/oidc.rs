//! The OpenID Connect provider: its keys, and whom its tokens make.
//!
//! Keys are fetched by one task, [`Provider::run`], and by nothing else. A request whose
//! token is signed with a key that is not known asks that task for newer ones and waits; so
//! requests that are given up do not interrupt a fetch, requests at the same time share one,
//! and forged tokens cannot make more of them than the pace allows.

mod fetch;
mod refresh;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use insula_access::Credential;
use insula_access::jwt::{self, Claims, KeySet, Signed, TokenCache};
use insula_access::oidc::{self, Issuer, Settings, SettingsError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use self::fetch::Client;
pub use self::fetch::{ClientError, FetchError};
use crate::egress::trust::Trust;
use crate::pipeline::oidc::refresh::{Next, State};

/// A provider whose tokens are believed.
pub struct Provider {
    issuer: Issuer,
    client: Client,
    pace: Pace,
    state: watch::Sender<State>,
}

/// How often the provider is asked for its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// When all is well.
    pub every: Duration,
    /// After a failure.
    pub retry: Duration,
    /// At least this long after the last time, whatever tokens say about their keys.
    pub apart: Duration,
    /// How long a fetch may take.
    pub timeout: Duration,
}

/// Why a provider cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// It is not to be trusted like this.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Its CA cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The provider has not told its keys yet.
    #[error("oidc: authenticator for issuer {0:?} is not initialized")]
    NotReady(String),
    /// It is not good.
    #[error(transparent)]
    Refused(#[from] oidc::Error),
}

/// The provider's keys, and the tokens that were verified with them: when the keys change,
/// nothing is left of what the old ones have proved.
struct Keys {
    set: KeySet,
    verified: TokenCache<Credential>,
}

/// How much longer than a fetch a request waits for newer keys.
const MARGIN: Duration = Duration::from_secs(1);

impl Default for Pace {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(3600),
            retry: Duration::from_secs(10),
            apart: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
        }
    }
}

impl Provider {
    /// One that is asked nothing yet: that is what [`run`](Self::run) does.
    pub fn new(settings: Settings, trust: &Trust) -> Result<Arc<Self>, SetupError> {
        Self::with_pace(settings, trust, Pace::default())
    }

    /// The same, at another pace.
    pub fn with_pace(
        settings: Settings,
        trust: &Trust,
        pace: Pace,
    ) -> Result<Arc<Self>, SetupError> {
        Ok(Arc::new(Self {
            issuer: Issuer::try_from(settings)?,
            client: Client::new(trust)?,
            pace,
            state: watch::Sender::default(),
        }))
    }

    /// What the provider calls itself.
    pub fn url(&self) -> &str {
        self.issuer.url()
    }

    /// Waits until its keys are there for the first time.
    pub async fn ready(&self) {
        let mut state = self.state.subscribe();
        // The sender is ours: it cannot be gone.
        state.wait_for(State::is_ready).await.ok();
    }

    /// Whom a token makes at `now`, in seconds since 1970.
    pub async fn authenticate(&self, token: &str, now: i64) -> Result<Arc<Credential>, Error> {
        let known = self.state.borrow().keys();
        if let Some(keys) = &known
            && let Some(credential) = keys.verified.find(token, now)
        {
            return Ok(credential);
        }
        let signed = Signed::parse(token).map_err(oidc::Error::from)?;
        self.issuer.check_unverified(&signed)?;
        let Some(keys) = known else {
            return Err(Error::NotReady(self.url().to_owned()));
        };
        let (keys, claims) = self.verify(&signed, keys).await?;
        let holder = self.issuer.authenticate(claims, now)?;
        let credential = Arc::new(holder.credential);
        keys.verified
            .insert(token, holder.expires, Arc::clone(&credential));
        Ok(credential)
    }

    /// What a token says, and the keys that prove it: these or newer ones.
    async fn verify<'a>(
        &self,
        signed: &'a Signed<'_>,
        keys: Arc<Keys>,
    ) -> Result<(Arc<Keys>, &'a Claims), oidc::Error> {
        match signed.verify(&keys.set) {
            Err(jwt::Error::UnknownKey) => {
                let newer = self.newer_than(&keys).await;
                let newer = newer.ok_or(jwt::Error::UnknownKey)?;
                let claims = signed.verify(&newer.set)?;
                Ok((newer, claims))
            }
            verified => Ok((keys, verified?)),
        }
    }

    /// Keys that came after these, for a token that is signed with none of them: those that
    /// are there by now, or come with the next fetch, if that is due.
    async fn newer_than(&self, keys: &Arc<Keys>) -> Option<Arc<Keys>> {
        let mut next = Next::Later;
        self.state.send_if_modified(|state| {
            let before = state.is_asked();
            next = state.ask(keys, self.pace.apart);
            // A flood wakes the task once, and not those who wait.
            state.is_asked() && !before
        });
        let after = match next {
            Next::Here(newer) => return Some(newer),
            Next::Later => return None,
            Next::Soon { after } => after,
        };
        let mut state = self.state.subscribe();
        let fetched = state.wait_for(|state| state.fetches() > after);
        let fetched = timeout(self.pace.timeout + MARGIN, fetched).await;
        let newer = fetched.ok()?.ok()?.keys();
        newer.filter(|newer| !Arc::ptr_eq(newer, keys))
    }

    /// Fetches keys, at once and again and again. It ends when it is dropped.
    pub async fn run(&self) -> Infallible {
        let mut trouble = false;
        loop {
            let began = Instant::now();
            self.state.send_modify(|state| state.begin(began));
            let fetched = self.fetch().await;
            self.log_result(&fetched, trouble);
            trouble = fetched.is_err();
            self.state.send_modify(|state| state.end(fetched.ok()));
            let next = if trouble {
                self.pace.retry
            } else {
                self.pace.every
            };
            tokio::select! {
                () = sleep_until(began + next.max(self.pace.apart)) => {}
                () = self.asked(began) => {}
            }
        }
    }

    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let fetched = timeout(self.pace.timeout, self.client.keys(self.url())).await;
        fetched.map_err(|_| FetchError::Time)?
    }

    /// When somebody asked and the last time is long enough ago.
    async fn asked(&self, began: Instant) {
        let mut state = self.state.subscribe();
        // The sender is ours: it cannot be gone.
        state.wait_for(State::is_asked).await.ok();
        sleep_until(began + self.pace.apart).await;
    }

    /// Once when trouble begins, once when it ends.
    fn log_result(&self, fetched: &Result<KeySet, FetchError>, trouble: bool) {
        let issuer = self.url();
        match fetched {
            Ok(_) if trouble => {
                tracing::info!(issuer, "the OpenID provider's keys are there again")
            }
            Ok(keys) => tracing::debug!(issuer, keys = keys.keys().len(), "keys were fetched"),
            Err(error) if trouble => tracing::debug!(issuer, %error, "still no keys"),
            Err(error) => {
                tracing::warn!(issuer, %error, "the OpenID provider's keys cannot be fetched");
            }
        }
    }
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}
