//! Authentication: the principal of a request, from a client certificate or a bearer token.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use insula_access::certificate::seconds;
use insula_access::{Credential, resolve_principal};
use insula_core::{Principal, Space, Spaces};
use rustls::pki_types::CertificateDer;

use crate::pipeline::oidc::Provider;
use crate::pipeline::revocation::{is_revoked, is_revoked_in};
use crate::pipeline::service_account::{Accounts, TokenError, VerifyError};
use crate::pipeline::trust::{CurrentTrust, Trust};
use crate::registry::Registry;
use crate::status::{Result, StatusError};

/// Authenticates requests.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// The trusted CAs of client certificates, and the static tokens.
    pub trust: Arc<CurrentTrust>,
    /// Verifies tokens of service accounts.
    pub accounts: Option<Arc<Accounts>>,
    /// Verifies tokens of the OpenID Connect provider.
    pub provider: Option<Arc<Provider>>,
    /// The space of credentials that name no tenant.
    pub default_tenant: Option<Space>,
}

/// The peer of a connection: the identity of its client certificate, and its address.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    shown: Option<Arc<ShownCertificate>>,
    address: Option<IpAddr>,
}

/// The certificate that a client showed in the handshake.
#[derive(Debug)]
struct ShownCertificate {
    /// The chain, leaf first, to be verified again when other CAs are trusted.
    chain: Vec<CertificateDer<'static>>,
    verified: RwLock<VerifiedCertificate>,
}

#[derive(Debug)]
struct VerifiedCertificate {
    identity: PeerIdentity,
    /// The version of the [`Trust`] that it was verified with.
    version: u64,
}

/// The most bytes of an untrusted chain that are kept, in case its CA is trusted later.
const MAX_UNTRUSTED_BYTES: usize = 8 << 10;

/// The most bytes of a user name: a revocation must be able to name the user.
const MAX_USER_BYTES: usize = 1024;

#[derive(Clone, Debug, Default)]
enum PeerIdentity {
    /// None: the client sent no certificate, or an untrusted one.
    #[default]
    Nothing,
    /// The identity of a certificate, until it expires: connections may last longer.
    Certified {
        /// The principal, or the error if it belongs to no tenant.
        principal: Result<Arc<Principal>>,
        /// The expiry of the certificate chain.
        until: SystemTime,
    },
}

impl Peer {
    /// Sets the remote address.
    #[must_use]
    pub const fn at(mut self, address: IpAddr) -> Self {
        self.address = Some(address.to_canonical());
        self
    }

    /// Returns the remote address.
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns the principal of the certificate, if that is valid now.
    fn principal(&self, now: SystemTime) -> Option<Result<Arc<Principal>>> {
        let verified = self.shown.as_ref()?.verified.read();
        let verified = verified.unwrap_or_else(PoisonError::into_inner);
        match &verified.identity {
            PeerIdentity::Certified { principal, until } if now <= *until => {
                Some(principal.clone())
            }
            _ => None,
        }
    }

    /// Verifies the certificate again if other CAs are trusted than before.
    fn refresh(&self, authenticator: &Authenticator) {
        let Some(shown) = &self.shown else {
            return;
        };
        let trust = authenticator.trust.get();
        let known = shown.verified.read();
        let known = known.unwrap_or_else(PoisonError::into_inner).version;
        if known == trust.version {
            return;
        }
        let next = VerifiedCertificate {
            identity: authenticator.identify(&trust, &shown.chain),
            version: trust.version,
        };
        let mut verified = shown
            .verified
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if verified.version < next.version {
            *verified = next;
        }
    }
}

/// An authenticated token.
#[derive(Debug)]
pub struct AuthenticatedToken {
    /// The principal of the token.
    pub principal: Arc<Principal>,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
}

/// The error of a rejected token.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct TokenRejected {
    why: String,
    /// The space of the token's account, if this server issued it.
    home: Option<Space>,
    /// The error for the holder, if it is not 401.
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

    fn revoked(principal: &Principal) -> Self {
        Self {
            home: Some(principal.home.clone()),
            ..Self::new(format!("[{INVALID_TOKEN}, the token has been revoked]"))
        }
    }

    /// Returns the message for these spaces, which hides details of other spaces' tokens.
    pub fn message_in(&self, spaces: &Spaces) -> &str {
        match &self.home {
            Some(home) if *spaces != Spaces::One(home.clone()) => INVALID_TOKEN,
            _ => &self.why,
        }
    }
}

/// The message of an unknown token.
const INVALID_TOKEN: &str = "invalid bearer token";

impl From<VerifyError> for TokenRejected {
    /// Combines the errors of all authenticators, as Kubernetes does.
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
    /// Verifies the client's certificate chain, leaf first, once per connection. The handshake
    /// has verified only that the client holds the key.
    pub fn peer(&self, shown: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some(shown) = shown else {
            return Peer::default();
        };
        let trust = self.trust.get();
        let identity = self.identify(&trust, shown);
        let bytes: usize = shown.iter().map(|one| one.len()).sum();
        if matches!(identity, PeerIdentity::Nothing) && bytes > MAX_UNTRUSTED_BYTES {
            return Peer::default();
        }
        let shown = ShownCertificate {
            chain: shown.iter().map(|one| one.clone().into_owned()).collect(),
            verified: RwLock::new(VerifiedCertificate {
                identity,
                version: trust.version,
            }),
        };
        Peer {
            shown: Some(Arc::new(shown)),
            address: None,
        }
    }

    /// Verifies a certificate chain, leaf first, and reads the identity in it.
    fn identify(&self, trust: &Trust, chain: &[CertificateDer<'_>]) -> PeerIdentity {
        let Some(clients) = &trust.clients else {
            return PeerIdentity::Nothing;
        };
        let refused = |error: &dyn std::fmt::Display| {
            tracing::debug!(%error, "client certificate rejected");
            PeerIdentity::Nothing
        };
        let until = match clients.verify(chain, SystemTime::now()) {
            Ok(until) => until,
            Err(error) => return refused(&error),
        };
        let leaf = chain.first().map_or(&[][..], AsRef::as_ref);
        match insula_access::certificate::read(leaf) {
            Ok(mut credential) => {
                credential.reference.chain_expires = Some(seconds(until));
                credential.reference.epoch = trust.certificate_epoch;
                PeerIdentity::Certified {
                    principal: self.resolve(credential),
                    until,
                }
            }
            Err(error) => refused(&error),
        }
    }

    /// Returns the principal of a request, from the connection's certificate or else the
    /// bearer token. An untrusted certificate does not prevent the use of a token.
    pub async fn authenticate(
        &self,
        registry: &Registry,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<Arc<Principal>> {
        peer.refresh(self);
        let principal = match peer.principal(SystemTime::now()) {
            Some(principal) => {
                // A credential that was revoked before must be rejected.
                registry.await_own_writes().await;
                principal?
            }
            None => Box::pin(self.bearer(registry, headers)).await?,
        };
        // A space that is new to this server may have revocations, too.
        let Some(state) = registry.find_space(&principal.home).await? else {
            return Ok(principal);
        };
        if is_revoked_in(registry, &state, &principal) {
            return Err(StatusError::unauthorized());
        }
        if principal.tenant_binding.holds(&state.uid, state.created) {
            let now = jiff::Timestamp::now().as_second();
            let records = registry.access_records();
            records.note_use(&state.uid, &principal, peer.address(), now);
        }
        Ok(principal)
    }

    /// Whether the request has a credential, valid or not.
    pub fn has_credential(peer: &Peer, headers: &HeaderMap) -> bool {
        headers.contains_key(AUTHORIZATION) || peer.principal(SystemTime::now()).is_some()
    }

    async fn bearer(&self, registry: &Registry, headers: &HeaderMap) -> Result<Arc<Principal>> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        // With two headers, a proxy may have meant the other one.
        let (Some(header), None) = (given.next(), given.next()) else {
            return Err(StatusError::unauthorized());
        };
        let header = header.to_str().ok();
        let token = header
            .and_then(bearer)
            .ok_or_else(StatusError::unauthorized)?;
        // The caller of this function looks for revocations.
        registry.await_own_writes().await;
        let authenticated = self.verify(registry, token, &[]).await;
        authenticated.map(|holder| holder.principal).map_err(|why| {
            tracing::debug!(%why, "token rejected");
            why.status
                .map_or_else(StatusError::unauthorized, |status| *status)
        })
    }

    /// Authenticates a token for one of these audiences. An empty list means this server.
    pub async fn token(
        &self,
        registry: &Registry,
        token: &str,
        audiences: &[String],
    ) -> Result<AuthenticatedToken, TokenRejected> {
        // The token of an account that was deleted before must be rejected, and a token that was
        // revoked before.
        registry.await_own_writes().await;
        let authenticated = self.verify(registry, token, audiences).await?;
        let home = registry.find_space(&authenticated.principal.home).await;
        home.map_err(TokenRejected::new)?;
        match is_revoked(registry, &authenticated.principal) {
            true => Err(TokenRejected::revoked(&authenticated.principal)),
            false => Ok(authenticated),
        }
    }

    /// Verifies a token, which may be revoked.
    async fn verify(
        &self,
        registry: &Registry,
        token: &str,
        audiences: &[String],
    ) -> Result<AuthenticatedToken, TokenRejected> {
        if let Some(credential) = self.static_token(token) {
            return self.for_this_server(registry, credential, audiences);
        }
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
            Ok(credential) => {
                self.for_this_server(registry, credential.as_ref().clone(), audiences)
            }
            Err(error) => Err(TokenRejected::new(format!("[{INVALID_TOKEN}, {error}]"))),
        }
    }

    /// Looks up a static token.
    fn static_token(&self, token: &str) -> Option<Credential> {
        let trust = self.trust.get();
        let tokens = trust.tokens.as_ref()?;
        let mut credential = tokens.find(token)?.clone();
        credential.reference.id = tokens.id(token).unwrap_or_default();
        credential.reference.epoch = trust.token_epoch;
        Some(credential)
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
        let holder = accounts.verifier.verify(registry, token, audiences, now)?;
        Ok(AuthenticatedToken {
            principal: Arc::new(holder.principal),
            audiences: holder.audiences,
        })
    }

    /// Resolves a credential without audiences, which is valid for this server.
    fn for_this_server(
        &self,
        registry: &Registry,
        credential: Credential,
        audiences: &[String],
    ) -> Result<AuthenticatedToken, TokenRejected> {
        let principal = self.resolve(credential).map_err(|status| TokenRejected {
            // In a token review, a principal without a tenant is unknown.
            why: INVALID_TOKEN.to_owned(),
            home: None,
            status: Some(Box::new(status)),
        })?;
        let own = self.accounts.as_ref();
        let own = own.map(|accounts| accounts.audiences_of(registry, &principal.home));
        let meant = |own: &String| audiences.is_empty() || audiences.contains(own);
        let own: Vec<String> = own.into_iter().flatten().filter(meant).collect();
        if own.is_empty() && !audiences.is_empty() {
            return Err(TokenRejected::new(INVALID_TOKEN));
        }
        Ok(AuthenticatedToken {
            principal,
            audiences: own,
        })
    }

    fn resolve(&self, credential: Credential) -> Result<Arc<Principal>> {
        if credential.user.len() > MAX_USER_BYTES {
            tracing::debug!("user with a long name rejected");
            return Err(StatusError::unauthorized());
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use insula_access::{Authority, Subject, TokenFile, Validity};
    use rustls::pki_types::pem::PemObject;

    use super::*;

    /// A certificate in an hour's validity, from a CA that is valid for `seconds`.
    fn authority(seconds: u64) -> (Authority, CertificateDer<'static>) {
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(seconds));
        let authority = Authority::generate("ca", validity).unwrap();
        let der = CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes());
        (authority, der.unwrap())
    }

    #[test]
    fn user_with_a_name_that_no_revocation_can_have_is_rejected() {
        let authenticator = Authenticator {
            default_tenant: Some(Space::System),
            ..Authenticator::default()
        };
        let resolve = |bytes| {
            let lines = format!("token,{},1\n", "u".repeat(bytes));
            let file = TokenFile::parse(&lines).unwrap();
            authenticator.resolve(file.find("token").unwrap().clone())
        };
        assert_eq!(resolve(1024).unwrap().user.len(), 1024);
        assert_eq!(resolve(1025).unwrap_err().code, 401);
    }

    #[test]
    fn certificate_expires_when_it_says_whatever_chain_is_shown() {
        let (ca, ca_der) = authority(7200);
        let (_, short_lived) = authority(60);
        let subject = Subject {
            user: "carl".to_owned(),
            groups: Vec::new(),
            tenant: Some(Space::System),
            tenant_uid: None,
        };
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(3600));
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = ca.issue_client(&subject, &key, validity).unwrap();
        let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let authenticator = Authenticator {
            trust: Arc::new(CurrentTrust::new(&[ca_der], None).unwrap()),
            ..Authenticator::default()
        };
        let peer = authenticator.peer(Some(&[leaf.clone(), short_lived.clone()]));
        let principal = peer.principal(SystemTime::now()).unwrap().unwrap();
        let end = |der: &CertificateDer<'_>| {
            let validity = insula_access::certificate::validity(der).unwrap();
            Some(seconds(validity.until))
        };
        // A revocation until the end of the chain would be deleted before the leaf expires.
        assert_eq!(principal.credential.expires, end(&leaf));
        assert_eq!(principal.credential.chain_expires, end(&short_lived));
    }
}
