//! Verification of service account tokens.
//!
//! The signature is verified once and cached. The existence of the account and of the bound
//! object is checked every time.

use std::sync::Arc;

use insula_access::jwt::{self, Claims, Signed, TimeError, Times, TokenCache};
use insula_core::{
    AUTHENTICATED, CREDENTIAL_ID, CredentialRef, Extra, Principal, Proof, Space, TenantBinding,
};
use insula_gotext::quote::QuotedList;
use insula_kinds::{Value, kinds};
use ring::digest::{SHA256, digest};

use super::claims::{Account, Bound, Incomplete, LEGACY_ISSUER, Reference};
use super::token_uses::TokenUses;
use super::{AccountName, CurrentKeys, Issuer, IssuerUrls, SigningKeys, TOKEN_KEY};
use crate::registry::{Address, Registry};
use insula_cache::Stored;
use insula_kinds::core_kind;

/// Verifies tokens of service accounts.
#[derive(Debug)]
pub struct Verifier {
    keys: Arc<CurrentKeys>,
    issuers: IssuerUrls,
    verified: TokenCache<SignedToken>,
    uses: TokenUses,
}

/// A token that the server signed.
#[derive(Debug)]
struct SignedToken {
    /// The ID of the key that signed it.
    key_id: String,
    account: Account,
    audiences: Vec<String>,
    /// The validity; `None` for a legacy token, which is valid while its Secret exists.
    times: Option<Times>,
    /// The ID: the one in the token or, without one, a digest of the token.
    id: Arc<str>,
}

/// The principal and audiences of a verified token.
#[derive(Debug)]
pub struct Holder {
    /// The principal.
    pub principal: Principal,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
}

/// The error of a rejected token, and the space that may see it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct VerifyError {
    /// The error.
    pub why: TokenError,
    /// The space of the account, if the server issued the token. Other spaces must not see
    /// the error.
    pub home: Option<Space>,
}

/// The error of a rejected token, as token reviews report it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Another issuer's token.
    #[error("invalid bearer token")]
    Foreign,
    /// A wrong signature or a malformed token.
    #[error("invalid bearer token")]
    Forged(#[from] insula_access::jwt::Error),
    /// A token with the issuer of another space.
    #[error("invalid bearer token")]
    OtherSpace,
    /// A token without required claims.
    #[error("invalid bearer token")]
    Incomplete(#[from] Incomplete),
    /// An expired token, or one that is not valid yet.
    #[error("{}", time_message(.0))]
    Time(TimeError),
    /// A token for other audiences.
    #[error("token audiences {} is invalid for the target audiences {}", QuotedList(.found), QuotedList(.wanted))]
    Audience {
        /// The audiences of the token.
        found: Vec<String>,
        /// The requested audiences.
        wanted: Vec<String>,
    },
    /// A missing account.
    #[error("serviceaccounts {} not found", insula_gotext::quote(.0))]
    NoAccount(String),
    /// An account that is being deleted.
    #[error("service account {0} has been deleted")]
    Deleted(String),
    /// An account of the same name with another UID.
    #[error("service account UID ({is}) does not match claim ({said})")]
    UidMismatch {
        /// The UID of the existing account.
        is: String,
        /// The UID in the token.
        said: String,
    },
    /// The tenant or the bound object no longer exists.
    #[error("service account token has been invalidated")]
    Gone,
}

fn time_message(error: &TimeError) -> &'static str {
    match error {
        TimeError::Expired(_) => "service account token has expired",
        TimeError::NotYetValid(_) => "service account token is not valid yet",
        TimeError::IssuedInFuture(_) => "service account token is issued in the future",
    }
}

impl Verifier {
    /// Creates a verifier of the issuer's tokens.
    pub fn new(issuer: &Issuer) -> Self {
        Self {
            keys: Arc::clone(issuer.keys()),
            issuers: issuer.urls().clone(),
            verified: TokenCache::default(),
            uses: TokenUses::default(),
        }
    }

    /// Returns the uses of legacy tokens that are yet to be recorded.
    pub const fn uses(&self) -> &TokenUses {
        &self.uses
    }

    /// Verifies a token for one of these audiences at the time `now`. An empty list means this
    /// server.
    pub fn verify(
        &self,
        registry: &Registry,
        token: &str,
        wanted: &[String],
        now: i64,
    ) -> Result<Holder, VerifyError> {
        let keys = self.keys.get();
        // A key may have been withdrawn, or have expired, after the token was verified.
        let found = self.verified.find(token, now);
        let found = found.filter(|found| keys.accepts(&found.key_id, now));
        let signed_token = match &found {
            Some(signed_token) => Arc::clone(signed_token),
            None => Arc::new(
                self.read(token, &keys, now)
                    .map_err(|why| VerifyError { why, home: None })?,
            ),
        };
        let error = |why| VerifyError {
            why,
            home: Some(signed_token.account.space.clone()),
        };
        signed_token.holds_at(now).map_err(error)?;
        if found.is_none() {
            let expires = signed_token.times.and_then(|times| times.expires);
            let expires = expires.unwrap_or(i64::MAX);
            self.verified
                .insert(token, expires, Arc::clone(&signed_token));
        }
        let this_server = match wanted {
            [] => self.audiences_of(&signed_token.account),
            _ => Vec::new(),
        };
        let wanted = if wanted.is_empty() {
            &this_server
        } else {
            wanted
        };
        let audiences = signed_token.audiences_of(wanted).map_err(error)?;
        check_account(registry, &signed_token.account).map_err(error)?;
        if !binding_exists(registry, &signed_token.account, token) {
            return Err(error(TokenError::Gone));
        }
        if let Bound::LegacySecret(secret) = &signed_token.account.bound {
            let address = address(&signed_token.account, "secrets", secret);
            self.uses.note(registry, address, now);
        }
        Ok(Holder {
            principal: Principal {
                credential: signed_token.reference(registry),
                ..principal(&signed_token.account)
            },
            audiences,
        })
    }

    /// Verifies the signature and parses the claims.
    fn read(&self, token: &str, keys: &SigningKeys, now: i64) -> Result<SignedToken, TokenError> {
        let signed = Signed::parse(token)?;
        let issuer = signed.claimed_issuer().ok_or(TokenError::Foreign)?;
        if issuer != LEGACY_ISSUER && !self.issuers.may_include(issuer) {
            return Err(TokenError::Foreign);
        }
        // Every token of this server names its key.
        let key_id = signed.key_id().ok_or(jwt::Error::UnknownKey)?.to_owned();
        let claims = signed.verify(&keys.published_at(now))?;
        if issuer == LEGACY_ISSUER {
            let account = Account::from_legacy(claims)?;
            return Ok(SignedToken {
                key_id,
                audiences: self.audiences_of(&account),
                account,
                times: None,
                id: jwt::digest_id(token),
            });
        }
        let id = claims
            .id()
            .map_or_else(|| jwt::digest_id(token), jwt::bounded_id);
        let signed_token = bound_token(key_id, id, claims)?;
        // Earlier versions signed as the plain issuer in every space.
        let in_space = self.issuers.of_account(&signed_token.account);
        match issuer == in_space || issuer == self.issuers.plain() {
            true => Ok(signed_token),
            false => Err(TokenError::OtherSpace),
        }
    }

    /// Returns the audiences that mean this server in the account's space.
    fn audiences_of(&self, account: &Account) -> Vec<String> {
        let mut audiences = vec![self.issuers.of_account(account)];
        if !account.space.is_system() {
            audiences.push(self.issuers.plain().to_owned());
        }
        audiences
    }
}

impl SignedToken {
    /// Names the token. A legacy token is as old as its Secret.
    fn reference(&self, registry: &Registry) -> CredentialRef {
        let issued = match &self.account.bound {
            Bound::LegacySecret(secret) => {
                let secret = registry.cached(&address(&self.account, "secrets", secret));
                secret.and_then(|secret| secret.created())
            }
            _ => self.times.and_then(|times| times.issued),
        };
        CredentialRef {
            id: Arc::clone(&self.id),
            issued,
            expires: self.times.and_then(|times| times.expires),
            ..CredentialRef::default()
        }
    }

    fn holds_at(&self, now: i64) -> Result<(), TokenError> {
        let held = self.times.map(|times| times.check(now));
        held.transpose().map(drop).map_err(TokenError::Time)
    }

    /// Returns the requested audiences that the token is valid for.
    fn audiences_of(&self, wanted: &[String]) -> Result<Vec<String>, TokenError> {
        let mut audiences = self.audiences.clone();
        audiences.retain(|audience| wanted.contains(audience));
        if audiences.is_empty() {
            return Err(TokenError::Audience {
                found: self.audiences.clone(),
                wanted: wanted.to_vec(),
            });
        }
        Ok(audiences)
    }
}

fn bound_token(key_id: String, id: Arc<str>, claims: &Claims) -> Result<SignedToken, TokenError> {
    let times = claims.times().map_err(|_| Incomplete)?;
    // Tokens from a TokenRequest always expire.
    times.expires.ok_or(Incomplete)?;
    let audiences = claims.audiences().map_err(|_| Incomplete)?;
    Ok(SignedToken {
        key_id,
        account: Account::from_bound(claims)?,
        audiences: audiences.into_iter().map(str::to_owned).collect(),
        times: Some(times),
        id,
    })
}

/// Fails if the account does not exist, or is another of the same name, in this tenant or in a
/// former one of the same name.
fn check_account(registry: &Registry, account: &Account) -> Result<(), TokenError> {
    let state = registry.cache().space_state(&account.space);
    let same = |uid: &String| state.is_some_and(|state| *state.uid == **uid);
    if !account.tenant_uid.as_ref().is_none_or(same) {
        return Err(TokenError::Gone);
    }
    let address = address(account, "serviceaccounts", &account.name);
    let found = registry.cached(&address);
    let found = found.ok_or_else(|| TokenError::NoAccount(account.name.clone()))?;
    let is = found.uid().unwrap_or("");
    if is != account.uid {
        return Err(TokenError::UidMismatch {
            is: is.to_owned(),
            said: account.uid.clone(),
        });
    }
    match found.is_terminating() {
        true => Err(TokenError::Deleted(address.within())),
        false => Ok(()),
    }
}

/// Whether the object that the token is bound to exists.
fn binding_exists(registry: &Registry, account: &Account, token: &str) -> bool {
    let find = |resource, name: &str| registry.cached(&address(account, resource, name));
    match &account.bound {
        Bound::Account => true,
        Bound::Object(resource, Reference { name, uid }) => {
            find(resource, name).is_some_and(|found| is(&found, uid))
        }
        Bound::LegacySecret(secret) => {
            find("secrets", secret).is_some_and(|secret| holds(&secret, token))
        }
    }
}

/// Whether the object has this UID and is not being deleted.
fn is(object: &Stored, uid: &str) -> bool {
    object.uid() == Some(uid) && !object.is_terminating()
}

/// Whether the Secret stores this token.
fn holds(secret: &Stored, token: &str) -> bool {
    let tree = secret.tree();
    let kept = tree.get("data").and_then(|data| data.get(TOKEN_KEY));
    let kept = kept.and_then(Value::as_str).unwrap_or("");
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, token);
    let invalid = tree
        .get("metadata")
        .and_then(|of| {
            of.get("labels")?
                .get("kubernetes.io/legacy-token-invalid-since")
        })
        .and_then(Value::as_str);
    // Comparing digests leaks nothing about the token through timing.
    let same =
        digest(&SHA256, kept.as_bytes()).as_ref() == digest(&SHA256, encoded.as_bytes()).as_ref();
    same && invalid.is_none_or(str::is_empty) && !secret.is_terminating()
}

fn address(account: &Account, resource: &str, name: &str) -> Address {
    let kind = core_kind(resource);
    Address {
        kind: kind.into(),
        space: account.space.clone(),
        namespace: kinds()
            .get(kind)
            .namespaced()
            .then(|| account.namespace.clone()),
        name: name.to_owned(),
    }
}

fn principal(account: &Account) -> Principal {
    let name = AccountName {
        namespace: &account.namespace,
        name: &account.name,
    };
    let mut groups = name.groups().to_vec();
    groups.push(AUTHENTICATED.to_owned());
    Principal {
        user: name.user(),
        uid: Some(account.uid.clone()),
        groups,
        extra: extra(account),
        home: account.space.clone(),
        tenant_binding: match &account.tenant_uid {
            Some(uid) => TenantBinding::Uid(uid.as_str().into()),
            None => TenantBinding::Name,
        },
        proof: Proof::ServiceAccount,
        credential: CredentialRef::default(),
        impersonator: None,
    }
}

fn extra(account: &Account) -> Extra {
    let mut extra = Extra::new();
    let mut put = |key: &str, value: &str| {
        let key = match key.contains('/') {
            true => key.to_owned(),
            false => format!("authentication.kubernetes.io/{key}"),
        };
        if !value.is_empty() {
            extra.insert(key, vec![value.to_owned()]);
        }
    };
    if let Some(id) = &account.id {
        put(CREDENTIAL_ID, &format!("JTI={id}"));
    }
    if let Bound::Object("pods", pod) = &account.bound {
        put("pod-name", &pod.name);
        put("pod-uid", &pod.uid);
    }
    if let Some(node) = &account.node {
        put("node-name", &node.name);
        put("node-uid", &node.uid);
    }
    extra
}
