//! Who asks.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use insula_access::{Credential, TokenFile, settle};
use insula_core::{Principal, Space};

use crate::status::{Refusal, Result};

/// What proves who asks.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Tokens that were given in a file.
    pub tokens: Option<TokenFile>,
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
    pub fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<Arc<Principal>> {
        match &peer.certificate {
            Some(principal) => principal.clone(),
            None => self.bearer(headers),
        }
    }

    fn bearer(&self, headers: &HeaderMap) -> Result<Arc<Principal>> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        // Of two, whoever forwarded the request may have meant the other.
        let (Some(header), None) = (given.next(), given.next()) else {
            return Err(Refusal::unauthorized());
        };
        let header = header.to_str().ok();
        let token = header.and_then(bearer).ok_or_else(Refusal::unauthorized)?;
        let known = self.tokens.as_ref().and_then(|tokens| tokens.find(token));
        self.settle(known.ok_or_else(Refusal::unauthorized)?.clone())
    }

    /// Whom a token belongs to.
    pub fn token(&self, token: &str) -> Option<Arc<Principal>> {
        let known = self.tokens.as_ref()?.find(token)?;
        self.settle(known.clone()).ok()
    }

    fn settle(&self, credential: Credential) -> Result<Arc<Principal>> {
        let principal = settle(credential, self.default_tenant.as_ref());
        principal
            .map(Arc::new)
            .map_err(|error| Refusal::no_tenant(&error.to_string()))
    }
}

/// Nobody acts for somebody else yet. Whoever asks to is refused: to go on under the own
/// name would be to do what was not asked for.
pub fn refuse_impersonation(principal: &Principal, headers: &HeaderMap) -> Result<()> {
    let asked = |name: &HeaderName| name.as_str().starts_with("impersonate-");
    if !headers.keys().any(asked) {
        return Ok(());
    }
    let whom = headers.get("impersonate-user");
    let whom = whom.and_then(|whom| whom.to_str().ok()).unwrap_or("");
    Err(Refusal::no_impersonation(principal, whom))
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn nobody_acts_for_somebody_else() {
        let authenticator = Authenticator {
            tokens: TokenFile::parse("secret,alice,1,\"tenant:system,system:masters\"").ok(),
            default_tenant: None,
        };
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
        let asked = |headers: &HeaderMap| -> Result<Arc<Principal>> {
            let principal = authenticator.authenticate(&Peer::default(), headers)?;
            refuse_impersonation(&principal, headers)?;
            Ok(principal)
        };
        assert_eq!(asked(&headers).unwrap().user, "alice");
        for name in ["impersonate-user", "impersonate-group", "impersonate-uid"] {
            let mut headers = headers.clone();
            headers.insert(name, HeaderValue::from_static("bob"));
            let refusal = asked(&headers).unwrap_err();
            assert_eq!(refusal.reason(), "Forbidden");
            let said = refusal.message();
            assert!(said.contains("User \"alice\" cannot impersonate"), "{said}");
        }
    }
}
