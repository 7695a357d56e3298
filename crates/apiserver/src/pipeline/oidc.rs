//! Authentication by an OpenID Connect provider.
//!
//! Only one task, [`Provider::run`], fetches keys. A request with a token of an unknown key
//! asks that task for newer ones and waits. So a cancelled request does not interrupt a fetch,
//! concurrent requests share one, and forged tokens cannot cause more than the pace allows.

mod fetch;
mod refresh;

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use insula_access::Credential;
use insula_access::jwt::{self, Claims, KeySet, Signed, TokenCache};
use insula_access::oidc::{self, Issuer, Settings, SettingsError};
use insula_tls::Trust;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use self::fetch::Client;
pub use self::fetch::{ClientError, FetchError};
use crate::log_interval::LogInterval;
use crate::pipeline::oidc::refresh::{Next, State};

/// A trusted OpenID Connect provider.
pub struct Provider {
    issuer: Issuer,
    client: RwLock<Arc<Client>>,
    pace: Pace,
    state: watch::Sender<State>,
    /// The time of the last log message about a token without a tenant, in seconds since 1970.
    refusals: LogInterval,
}

/// How often the keys of the provider are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The interval after a success.
    pub every: Duration,
    /// The interval after a failure.
    pub retry: Duration,
    /// The least interval between fetches that tokens of unknown keys cause.
    pub apart: Duration,
    /// How long a fetch may take.
    pub timeout: Duration,
}

/// The error of unusable settings.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Invalid settings of the issuer.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An invalid CA.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The error of a rejected token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The keys of the provider are yet to be fetched.
    #[error("oidc: authenticator for issuer {0:?} is not initialized")]
    NotReady(String),
    /// The token is invalid.
    #[error(transparent)]
    Refused(#[from] oidc::Error),
}

/// The keys of the provider, and the cache of tokens that were verified with them: changed
/// keys come with an empty cache.
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
    /// Creates a provider. [`run`](Self::run) fetches its keys.
    pub fn new(settings: Settings, trust: &Trust) -> Result<Arc<Self>, SetupError> {
        Self::with_pace(settings, trust, Pace::default())
    }

    /// Creates a provider with another pace.
    pub fn with_pace(
        settings: Settings,
        trust: &Trust,
        pace: Pace,
    ) -> Result<Arc<Self>, SetupError> {
        Ok(Arc::new(Self {
            issuer: Issuer::try_from(settings)?,
            client: RwLock::new(Arc::new(Client::new(trust)?)),
            pace,
            state: watch::Sender::default(),
            refusals: LogInterval::new(),
        }))
    }

    /// Verifies the provider's certificate in another way from the next fetch on.
    pub fn replace_trust(&self, trust: &Trust) -> Result<(), ClientError> {
        let next = Arc::new(Client::new(trust)?);
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// Returns the issuer URL.
    pub fn url(&self) -> &str {
        self.issuer.url()
    }

    /// Waits until the keys are fetched for the first time.
    pub async fn ready(&self) {
        let mut state = self.state.subscribe();
        // Cannot fail: the sender belongs to `self`.
        state.wait_for(State::is_ready).await.ok();
    }

    /// Authenticates a token at `now`, in seconds since 1970.
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
        let holder = self.issuer.authenticate(claims, now);
        let holder = holder.inspect_err(|error| self.log_refusal(error, now))?;
        let mut credential = holder.credential;
        if credential.reference.id.is_empty() {
            credential.reference.id = jwt::digest_id(token);
        }
        let credential = Arc::new(credential);
        keys.verified
            .insert(token, holder.expires, Arc::clone(&credential));
        Ok(credential)
    }

    /// Logs that a user of the provider was kept out, once a minute: the provider, or the
    /// configuration, may be wrong, but users must not be able to fill the log.
    fn log_refusal(&self, error: &oidc::Error, now: i64) {
        let oidc::Error::NotOfATenant(user) = error else {
            return;
        };
        if let Some(suppressed) = self.refusals.next(now) {
            let issuer = self.url();
            tracing::warn!(
                issuer,
                user,
                suppressed,
                "OpenID token without a tenant rejected"
            );
        }
    }

    /// Verifies a token, with these keys or newer ones, and returns its claims and the keys.
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

    /// Returns newer keys for a token that none of these has signed: already fetched ones, or
    /// those of the next fetch, if that is due.
    async fn newer_than(&self, keys: &Arc<Keys>) -> Option<Arc<Keys>> {
        let mut next = Next::Later;
        self.state.send_if_modified(|state| {
            let before = state.is_asked();
            next = state.ask(keys, self.pace.apart);
            // Many requests wake the task once, and not each other.
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

    /// Fetches keys periodically until it is dropped.
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

    fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let client = self.client();
        let fetched = timeout(self.pace.timeout, client.keys(self.url())).await;
        fetched.map_err(|_| FetchError::Time)?
    }

    /// Waits until a request needs newer keys and the least interval has passed.
    async fn asked(&self, began: Instant) {
        let mut state = self.state.subscribe();
        // Cannot fail: the sender belongs to `self`.
        state.wait_for(State::is_asked).await.ok();
        sleep_until(began + self.pace.apart).await;
    }

    /// Logs the first failure and the recovery.
    fn log_result(&self, fetched: &Result<KeySet, FetchError>, trouble: bool) {
        let issuer = self.url();
        match fetched {
            Ok(_) if trouble => {
                tracing::info!(issuer, "OpenID provider recovered")
            }
            Ok(keys) => tracing::debug!(issuer, keys = keys.keys().len(), "OpenID keys fetched"),
            Err(error) if trouble => {
                tracing::debug!(issuer, %error, "OpenID keys still not fetched")
            }
            Err(error) => {
                tracing::warn!(issuer, %error, "OpenID keys not fetched");
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
