//! Who asks.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use insula_access::{Credential, TokenFile, settle};
use insula_core::{Principal, Space, Spaces};

use crate::registry::Registry;
use crate::service_account::{Accounts, Doubt};
use crate::status::{Refusal, Result};

/// What proves who asks.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Tokens that were given in a file.
    pub tokens: Option<TokenFile>,
    /// What believes tokens of service accounts.
    pub accounts: Option<Arc<Accounts>>,
    /// Where they belong whose credential names no tenant.
    pub default_tenant: Option<Space>,
}

/// What a connection proved when it was made.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    certificate: Option<Result<Arc<Principal>>>,
    address: Option<IpAddr>,
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
}

/// Whose token it is.
#[derive(Debug)]
pub struct Believed {
    /// Whose.
    pub principal: Arc<Principal>,
    /// For whom, of those that were asked for.
    pub audiences: Vec<String>,
}

/// Why a token is nobody's.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Unknown {
    why: String,
    /// The space that the token was made for, if this server made it.
    home: Option<Space>,
    /// What the holder is told, if it is not just that nobody knows them.
    refusal: Option<Box<Refusal>>,
}

impl Unknown {
    fn new(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            home: None,
            refusal: None,
        }
    }

    /// Why, as it is told in a space: what is wrong with a token of another is not.
    pub fn told_in(&self, spaces: &Spaces) -> &str {
        match &self.home {
            Some(home) if *spaces != Spaces::One(home.clone()) => NOBODYS,
            _ => &self.why,
        }
    }
}

/// What is said of a token that nobody knows.
const NOBODYS: &str = "invalid bearer token";

impl From<Doubt> for Unknown {
    /// In the words of Kubernetes, where whoever does not know the token says so too.
    fn from(doubt: Doubt) -> Self {
        let why = match doubt.home {
            Some(_) => format!("[{NOBODYS}, {doubt}]"),
            None => doubt.to_string(),
        };
        Self {
            home: doubt.home,
            ..Self::new(&why)
        }
    }
}

impl Authenticator {
    /// What the client's certificate proves, once per connection. The handshake has
    /// verified that it is from a CA that is trusted for clients.
    pub fn peer(&self, certificate: Option<&[u8]>) -> Peer {
        let certificate = certificate.map(|der| {
            let credential = insula_access::certificate::read(der);
            let credential = credential.map_err(|error| {
                tracing::debug!(%error, "a client certificate is refused");
                Refusal::unauthorized()
            })?;
            self.settle(credential)
        });
        Peer {
            certificate,
            address: None,
        }
    }

    /// Who asks: as the connection's certificate says, or as the request's token says.
    pub async fn authenticate(
        &self,
        registry: &Registry,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<Arc<Principal>> {
        match &peer.certificate {
            Some(principal) => principal.clone(),
            None => self.bearer(registry, headers).await,
        }
    }

    async fn bearer(&self, registry: &Registry, headers: &HeaderMap) -> Result<Arc<Principal>> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        // Of two, whoever forwarded the request may have meant the other.
        let (Some(header), None) = (given.next(), given.next()) else {
            return Err(Refusal::unauthorized());
        };
        let header = header.to_str().ok();
        let token = header.and_then(bearer).ok_or_else(Refusal::unauthorized)?;
        let believed = self.token(registry, token, &[]).await;
        believed.map(|holder| holder.principal).map_err(|why| {
            tracing::debug!(%why, "a token is refused");
            why.refusal
                .map_or_else(Refusal::unauthorized, |refusal| *refusal)
        })
    }

    /// Whom a token belongs to, if it is for one of these audiences; none is this server.
    pub async fn token(
        &self,
        registry: &Registry,
        token: &str,
        audiences: &[String],
    ) -> Result<Believed, Unknown> {
        let own = self
            .accounts
            .as_ref()
            .map(|accounts| accounts.verifier.audience());
        let own: Vec<String> = own.map(str::to_owned).into_iter().collect();
        let wanted = match audiences {
            [] => &own[..],
            wanted => wanted,
        };
        if let Some(known) = self.tokens.as_ref().and_then(|tokens| tokens.find(token)) {
            return self.for_this_server(known.clone(), own.clone(), wanted);
        }
        let Some(accounts) = &self.accounts else {
            return Err(Unknown::new(NOBODYS));
        };
        // An account that was deleted before is not believed now.
        registry.settle().await;
        let now = jiff::Timestamp::now().as_second();
        match accounts.verifier.verify(registry, token, wanted, now) {
            Ok(holder) => Ok(Believed {
                principal: Arc::new(holder.principal),
                audiences: holder.audiences,
            }),
            Err(doubt) => Err(doubt.into()),
        }
    }

    /// A token that does not say for whom it is is for this server.
    fn for_this_server(
        &self,
        credential: Credential,
        own: Vec<String>,
        wanted: &[String],
    ) -> Result<Believed, Unknown> {
        let principal = self.settle(credential).map_err(|refusal| Unknown {
            why: refusal.message().to_owned(),
            home: None,
            refusal: Some(Box::new(refusal)),
        })?;
        let audiences: Vec<_> = own.into_iter().filter(|one| wanted.contains(one)).collect();
        if audiences.is_empty() && !wanted.is_empty() {
            return Err(Unknown::new(NOBODYS));
        }
        Ok(Believed {
            principal,
            audiences,
        })
    }

    fn settle(&self, credential: Credential) -> Result<Arc<Principal>> {
        let principal = settle(credential, self.default_tenant.as_ref());
        principal
            .map(Arc::new)
            .map_err(|error| Refusal::no_tenant(&error.to_string()))
    }
}

/// The token in a header: after one space, and without any.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let one = !token.is_empty() && !token.contains(' ');
    (one && scheme.eq_ignore_ascii_case("bearer")).then_some(token)
}
