//! Who asks.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use insula_access::{Credential, TokenFile, resolve_principal};
use insula_core::{Principal, Space, Spaces};
use rustls::pki_types::CertificateDer;

use crate::pipeline::client_certificates::Clients;
use crate::pipeline::oidc::Provider;
use crate::pipeline::service_account::{Accounts, TokenError, VerifyError};
use crate::registry::Registry;
use crate::status::{Result, StatusError};

/// What proves who asks.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Whose client certificates are trusted.
    pub clients: Option<Clients>,
    /// Tokens that were given in a file.
    pub tokens: Option<TokenFile>,
    /// What believes tokens of service accounts.
    pub accounts: Option<Arc<Accounts>>,
    /// Who else's tokens are believed.
    pub provider: Option<Arc<Provider>>,
    /// Where they belong whose credential names no tenant.
    pub default_tenant: Option<Space>,
}

/// What a connection proved when it was made, and where it is from.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    identity: PeerIdentity,
    address: Option<IpAddr>,
}

#[derive(Clone, Debug, Default)]
enum PeerIdentity {
    /// Nothing: no certificate was shown, or one that proves nothing.
    #[default]
    Nothing,
    /// Who it is, for as long as the certificate holds: connections last longer.
    Certified {
        /// Who, or why they belong nowhere.
        principal: Result<Arc<Principal>>,
        /// Until when.
        until: SystemTime,
    },
}

impl Peer {
    /// With the address that it is connected from.
    #[must_use]
    pub const fn at(mut self, address: IpAddr) -> Self {
        self.address = Some(address.to_canonical());
        self
    }

    /// The address that it is connected from.
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Who it is, if that is proved now.
    fn principal(&self, now: SystemTime) -> Option<&Result<Arc<Principal>>> {
        match &self.identity {
            PeerIdentity::Certified { principal, until } if now <= *until => Some(principal),
            _ => None,
        }
    }
}

/// Whose token it is.
#[derive(Debug)]
pub struct AuthenticatedToken {
    /// Whose.
    pub principal: Arc<Principal>,
    /// For whom, of those that were asked for.
    pub audiences: Vec<String>,
}

/// Why a token is nobody's.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct TokenRejected {
    why: String,
    /// The space that the token was made for, if this server made it.
    home: Option<Space>,
    /// What the holder is told, if it is not just that nobody knows them.
    status: Option<Box<StatusError>>,
}

impl TokenRejected {
    fn new(why: impl ToString) -> Self {
        Self {
            why: why.to_string(),
            home: None,
            status: None,
        }
    }

    /// Why, as it is told in a space: what is wrong with a token of another is not.
    pub fn message_in(&self, spaces: &Spaces) -> &str {
        match &self.home {
            Some(home) if *spaces != Spaces::One(home.clone()) => INVALID_TOKEN,
            _ => &self.why,
        }
    }
}

/// What is said of a token that nobody knows.
const INVALID_TOKEN: &str = "invalid bearer token";

impl From<VerifyError> for TokenRejected {
    /// In the words of Kubernetes, where whoever does not know the token says so too.
    fn from(error: VerifyError) -> Self {
        let why = match error.home {
            Some(_) => format!("[{INVALID_TOKEN}, {error}]"),
            None => error.to_string(),
        };
        Self {
            home: error.home,
            ..Self::new(&why)
        }
    }
}

impl Authenticator {
    /// What the client's certificates prove, leaf first, once per connection. The handshake
    /// has verified that the client has the key, and nothing else.
    pub fn peer(&self, shown: Option<&[CertificateDer<'_>]>) -> Peer {
        let (Some(shown), Some(clients)) = (shown, &self.clients) else {
            return Peer::default();
        };
        let refused = |error: &dyn std::fmt::Display| {
            tracing::debug!(%error, "a client certificate is refused");
            Peer::default()
        };
        let until = match clients.verify(shown, SystemTime::now()) {
            Ok(until) => until,
            Err(error) => return refused(&error),
        };
        let leaf = shown.first().map_or(&[][..], AsRef::as_ref);
        match insula_access::certificate::read(leaf) {
            Ok(credential) => Peer {
                identity: PeerIdentity::Certified {
                    principal: self.resolve(credential),
                    until,
                },
                address: None,
            },
            Err(error) => refused(&error),
        }
    }

    /// Who asks: as the connection's certificate says, or as the request's token says. A
    /// certificate that proves nothing is in no token's way.
    pub async fn authenticate(
        &self,
        registry: &Registry,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<Arc<Principal>> {
        match peer.principal(SystemTime::now()) {
            Some(principal) => principal.clone(),
            None => self.bearer(registry, headers).await,
        }
    }

    async fn bearer(&self, registry: &Registry, headers: &HeaderMap) -> Result<Arc<Principal>> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        // Of two, whoever forwarded the request may have meant the other.
        let (Some(header), None) = (given.next(), given.next()) else {
            return Err(StatusError::unauthorized());
        };
        let header = header.to_str().ok();
        let token = header
            .and_then(bearer)
            .ok_or_else(StatusError::unauthorized)?;
        let authenticated = self.token(registry, token, &[]).await;
        authenticated.map(|holder| holder.principal).map_err(|why| {
            tracing::debug!(%why, "a token is refused");
            why.status
                .map_or_else(StatusError::unauthorized, |status| *status)
        })
    }

    /// Whom a token belongs to, if it is for one of these audiences; none is this server.
    pub async fn token(
        &self,
        registry: &Registry,
        token: &str,
        audiences: &[String],
    ) -> Result<AuthenticatedToken, TokenRejected> {
        let known = self.tokens.as_ref().and_then(|tokens| tokens.find(token));
        if let Some(credential) = known {
            return self.for_this_server(credential.clone(), audiences);
        }
        // An account that was deleted before is not believed now.
        registry.await_own_writes().await;
        let now = jiff::Timestamp::now().as_second();
        match self.account(registry, token, audiences, now) {
            Err(error) if error.why == TokenError::Foreign => {}
            Ok(authenticated) => return Ok(authenticated),
            Err(error) => return Err(error.into()),
        }
        let Some(provider) = &self.provider else {
            return Err(TokenRejected::new(INVALID_TOKEN));
        };
        match provider.authenticate(token, now).await {
            Ok(credential) => self.for_this_server(credential.as_ref().clone(), audiences),
            Err(error) => Err(TokenRejected::new(format!("[{INVALID_TOKEN}, {error}]"))),
        }
    }

    fn account(
        &self,
        registry: &Registry,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Result<AuthenticatedToken, VerifyError> {
        let foreign = || VerifyError {
            why: TokenError::Foreign,
            home: None,
        };
        let accounts = self.accounts.as_ref().ok_or_else(foreign)?;
        let own = [accounts.verifier.audience().to_owned()];
        let wanted = if audiences.is_empty() {
            &own
        } else {
            audiences
        };
        let holder = accounts.verifier.verify(registry, token, wanted, now)?;
        Ok(AuthenticatedToken {
            principal: Arc::new(holder.principal),
            audiences: holder.audiences,
        })
    }

    /// A token that does not say for whom it is is for this server.
    fn for_this_server(
        &self,
        credential: Credential,
        audiences: &[String],
    ) -> Result<AuthenticatedToken, TokenRejected> {
        let principal = self.resolve(credential).map_err(|status| TokenRejected {
            // Who belongs nowhere is nobody, whoever asks about them.
            why: INVALID_TOKEN.to_owned(),
            home: None,
            status: Some(Box::new(status)),
        })?;
        let own = self.accounts.as_ref();
        let own = own.map(|accounts| accounts.verifier.audience().to_owned());
        let meant = |own: &String| audiences.is_empty() || audiences.contains(own);
        let own: Vec<String> = own.into_iter().filter(meant).collect();
        if own.is_empty() && !audiences.is_empty() {
            return Err(TokenRejected::new(INVALID_TOKEN));
        }
        Ok(AuthenticatedToken {
            principal,
            audiences: own,
        })
    }

    fn resolve(&self, credential: Credential) -> Result<Arc<Principal>> {
        let principal = resolve_principal(credential, self.default_tenant.as_ref());
        principal
            .map(Arc::new)
            .map_err(|error| StatusError::no_tenant(&error.to_string()))
    }
}

/// The token in a header: after one space, and without any.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let one = !token.is_empty() && !token.contains(' ');
    (one && scheme.eq_ignore_ascii_case("bearer")).then_some(token)
}
