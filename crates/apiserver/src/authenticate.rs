//! Who asks.

use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use insula_access::{Credential, TokenFile, settle};
use insula_core::{Principal, Space};
use rustls::pki_types::CertificateDer;

use crate::status::{Refusal, Result};
use crate::tls::Clients;

/// What proves who asks.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Whose client certificates are trusted.
    pub clients: Option<Clients>,
    /// Tokens that were given in a file.
    pub tokens: Option<TokenFile>,
    /// Where they belong whose credential names no tenant.
    pub default_tenant: Option<Space>,
}

/// What a connection proved when it was made.
#[derive(Clone, Debug, Default)]
pub enum Peer {
    /// Nothing: no certificate was shown.
    #[default]
    Silent,
    /// Nothing, and it tried to. Whoever has no token either has failed to prove who they
    /// are, and is not somebody who never tried.
    Refused,
    /// Who it is, for as long as the certificate holds: connections last longer.
    Certified {
        /// Who, or why they belong nowhere.
        principal: Result<Arc<Principal>>,
        /// Until when.
        until: SystemTime,
    },
}

impl Peer {
    /// Who it is, if that is proved now.
    fn principal(&self, now: SystemTime) -> Option<&Result<Arc<Principal>>> {
        match self {
            Self::Certified { principal, until } if now <= *until => Some(principal),
            _ => None,
        }
    }
}

impl Authenticator {
    /// What the client's certificates prove, leaf first, once per connection. The handshake
    /// has verified that the client has the key, and nothing else.
    pub fn peer(&self, shown: Option<&[CertificateDer<'_>]>) -> Peer {
        let (Some(shown), Some(clients)) = (shown, &self.clients) else {
            return Peer::Silent;
        };
        let refused = |error: &dyn std::fmt::Display| {
            tracing::debug!(%error, "a client certificate is refused");
            Peer::Refused
        };
        let until = match clients.judge(shown, SystemTime::now()) {
            Ok(until) => until,
            Err(error) => return refused(&error),
        };
        let leaf = shown.first().map_or(&[][..], AsRef::as_ref);
        match insula_access::certificate::read(leaf) {
            Ok(credential) => Peer::Certified {
                principal: self.settle(credential),
                until,
            },
            Err(error) => refused(&error),
        }
    }

    /// Who asks: as the connection's certificate says, or as the request's token says. A
    /// certificate that proves nothing is in no token's way.
    ///
    /// Nobody acts for somebody else yet. Whoever asks to is refused: to go on under the
    /// own name would be to do what was not asked for.
    pub fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<Arc<Principal>> {
        let principal = match peer.principal(SystemTime::now()) {
            Some(principal) => principal.clone()?,
            None => self.bearer(headers)?,
        };
        refuse_impersonation(&principal, headers)?;
        Ok(principal)
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

/// Whoever asks to act as somebody with less rights must not act with their own.
fn refuse_impersonation(principal: &Principal, headers: &HeaderMap) -> Result<()> {
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
            clients: None,
            tokens: TokenFile::parse("secret,alice,1,\"tenant:system,system:masters\"").ok(),
            default_tenant: None,
        };
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
        let asked = |headers: &HeaderMap| authenticator.authenticate(&Peer::default(), headers);
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
