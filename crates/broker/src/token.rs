//! Service account tokens in Secrets.
//!
//! Since 1.24 Kubernetes creates none by itself: a client creates a Secret that requests the
//! token, and waits. Every user who may write Secrets can write anything into one, so a token
//! that names another account is ignored.

mod claims;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use tokio::time::Instant;

pub(crate) use self::claims::Claims;
use crate::error::Error;
use crate::lookup;
use crate::transient::TransientErrors;

/// The type of Secrets with a service account token.
pub(crate) const TYPE: &str = "kubernetes.io/service-account-token";
/// The annotation that names the service account.
pub const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// The annotation with the UID of the service account, set by the token controller.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The annotation that names the creator of a Secret.
const CREATED_BY: (&str, &str) = ("kubernetes.io/created-by", "subctl");

/// The data keys of such a Secret that are passed on.
const KEYS: [&str; 3] = ["ca.crt", "namespace", "token"];

/// How long the token controller may take: it is done in a moment or not at all.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// The first poll interval.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(30);
/// The maximum poll interval.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Builds a Secret that requests the token of a service account.
pub fn request(account: &str, metadata: ObjectMeta) -> Secret {
    let mut metadata = metadata;
    let asks = [(ACCOUNT, account), CREATED_BY];
    let asks = asks.map(|(key, value)| (key.to_owned(), value.to_owned()));
    metadata.annotations.get_or_insert_default().extend(asks);
    Secret {
        metadata,
        type_: Some(TYPE.to_owned()),
        ..Secret::default()
    }
}

/// Returns the token in a Secret, if it was issued.
pub fn of(secret: &Secret) -> Option<&[u8]> {
    let data: &BTreeMap<_, _> = secret.data.as_ref()?;
    let token = &data.get("token")?.0;
    (!token.is_empty()).then_some(token)
}

/// Returns whether a Secret requests the token of this account.
pub fn is_for(secret: &Secret, account: &str) -> bool {
    let named = secret.annotations().get(ACCOUNT).map(String::as_str);
    named == Some(account) && secret.type_.as_deref() == Some(TYPE)
}

/// Returns whether annotations, data and token of a Secret all name this account, and this UID
/// if it is given.
pub(crate) fn matches_account(
    secret: &Secret,
    namespace: &str,
    account: &str,
    uid: Option<&str>,
) -> bool {
    let named = secret.data.as_ref().and_then(|data| data.get("namespace"));
    let claims = of(secret).and_then(Claims::of);
    is_for(secret, account)
        && may_belong_to_uid(secret, uid)
        && named.is_some_and(|named| named.0 == namespace.as_bytes())
        && claims.is_some_and(|claims| {
            claims.match_account(namespace, account, uid)
                && claims.may_be_stored_in(&secret.name_any())
        })
}

/// Returns whether a Secret names no other UID. One that is not filled in yet names none.
fn may_belong_to_uid(secret: &Secret, uid: Option<&str>) -> bool {
    let named = secret.annotations().get(ACCOUNT_UID);
    let named = named.filter(|named| !named.is_empty());
    named.is_none_or(|named| uid.is_none_or(|uid| uid == named))
}

/// Returns the UID of the account whose token a Secret holds: the annotation's, else the
/// token's.
pub(crate) fn account_uid(secret: &Secret) -> Option<String> {
    let named = secret.annotations().get(ACCOUNT_UID).cloned();
    named.or_else(|| Some(Claims::of(of(secret)?)?.uid))
}

/// Drops all data but the token, its CA and namespace, so that nothing else is passed on.
pub(crate) fn for_distribution(secret: Secret) -> Secret {
    let mut secret = secret;
    if let Some(data) = &mut secret.data {
        data.retain(|key, _| KEYS.contains(&key.as_str()));
    }
    secret
}

/// Returns the Secret with the token of an account; creates it if there is none, and waits for
/// the token. Existing Secrets are found by their content, never by name: naming has varied
/// between cluster versions.
///
/// # Errors
///
/// Any error of the server; [`Error::NoToken`] if no token is issued in time.
pub async fn ensure(
    secrets: &Api<Secret>,
    account: &str,
    timeout: Duration,
) -> Result<Secret, Error> {
    let found = find(secrets, account).await?;
    await_or_request(secrets, (account, None), found, timeout).await
}

/// Does the same for a given account object. A token of an earlier account of the same name is
/// not used: it may linger for a while, but is invalid.
///
/// # Errors
///
/// As for [`ensure`].
pub async fn ensure_for(
    secrets: &Api<Secret>,
    account: &ServiceAccount,
    timeout: Duration,
) -> Result<Secret, Error> {
    let found = find_for(secrets, account).await?;
    let (name, uid) = (account.name_any(), account.uid());
    await_or_request(secrets, (&name, uid.as_deref()), found, timeout).await
}

/// Returns the Secret with the token of a given account object, if there is one; Secrets that
/// already hold a token are preferred.
///
/// # Errors
///
/// Any error of the server.
pub(crate) async fn find_for(
    secrets: &Api<Secret>,
    account: &ServiceAccount,
) -> Result<Option<Secret>, Error> {
    let (name, uid) = (account.name_any(), account.uid());
    let candidates = candidates(secrets, &name, uid.as_deref()).await?;
    Ok(candidates.into_iter().next())
}

/// Returns whether a Secret holds, or will hold, the token of an account: not that of an
/// earlier account of the same name, and nothing else. The token controller does not fill in
/// immutable Secrets.
pub(crate) fn belongs_to(secret: &Secret, account: &str, uid: Option<&str>) -> bool {
    if of(secret).is_some() {
        let namespace = secret.namespace().unwrap_or_default();
        return matches_account(secret, &namespace, account, uid);
    }
    is_for(secret, account) && may_belong_to_uid(secret, uid) && secret.immutable != Some(true)
}

/// Waits for the token in an existing Secret, or requests one.
async fn await_or_request(
    secrets: &Api<Secret>,
    (account, uid): (&str, Option<&str>),
    found: Option<Secret>,
    timeout: Duration,
) -> Result<Secret, Error> {
    let secret = match found {
        Some(found) => found,
        None => {
            let metadata = ObjectMeta {
                generate_name: Some(format!("{account}-token-")),
                ..ObjectMeta::default()
            };
            let asked = request(account, metadata);
            let made = secrets.create(&PostParams::default(), &asked).await;
            let attempted = format!("request a token for service account {account}");
            made.map_err(Error::when(attempted))?
        }
    };
    let name = secret.name_any();
    let filled = await_token(secrets, secret, timeout).await?;
    match belongs_to(&filled, account, uid) {
        true => Ok(filled),
        false => Err(Error::WrongToken { secret: name }),
    }
}

/// Returns the Secret with the token of an account, if there is one; Secrets that already hold
/// a token are preferred.
///
/// # Errors
///
/// Any error of the server.
pub async fn find(secrets: &Api<Secret>, account: &str) -> Result<Option<Secret>, Error> {
    let candidates = candidates(secrets, account, None).await?;
    Ok(candidates.into_iter().next())
}

/// Returns the Secrets for the token of an account; those that already hold it come first.
async fn candidates(
    secrets: &Api<Secret>,
    account: &str,
    uid: Option<&str>,
) -> Result<Vec<Secret>, Error> {
    let tokens = ListParams::default().fields(&format!("type={TYPE}"));
    let listed = secrets.list(&tokens).await;
    let attempted = format!("look for the token of service account {account}");
    let listed = listed.map_err(Error::when(attempted))?;
    let mut mine: Vec<_> = listed
        .items
        .into_iter()
        .filter(|secret| secret.metadata.deletion_timestamp.is_none())
        .filter(|secret| belongs_to(secret, account, uid))
        .collect();
    mine.sort_by_key(|secret| of(secret).is_none());
    Ok(mine)
}

/// Waits until a Secret holds a token. While it is being recreated it may be absent for a
/// moment.
async fn await_token(
    secrets: &Api<Secret>,
    first: Secret,
    timeout: Duration,
) -> Result<Secret, Error> {
    let name = first.name_any();
    let deadline = Instant::now() + timeout;
    let (mut secret, mut interval) = (Some(first), MIN_POLL_INTERVAL);
    let mut transient = TransientErrors::default();
    loop {
        if let Some(filled) = secret.filter(|secret| of(secret).is_some()) {
            return Ok(filled);
        }
        if Instant::now() >= deadline {
            return Err(Error::NoToken { secret: name });
        }
        tokio::time::sleep(interval).await;
        interval = interval.mul_f32(1.3).min(MAX_POLL_INTERVAL);
        secret = match lookup::get(secrets, &name).await {
            Ok(found) => {
                transient.reset();
                found
            }
            Err(error) if transient.tolerate(&error) => None,
            Err(error) => return Err(Error::when(format!("read secret {name}"))(error)),
        };
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    /// A Secret of account `a` in namespace `n` with a token of this subject and UID.
    fn secret(subject: &str, uid: &str, annotated: Option<&str>) -> Secret {
        let claims = json!({
            "sub": subject,
            "kubernetes.io/serviceaccount/service-account.uid": uid,
            "kubernetes.io/serviceaccount/secret.name": "s",
        });
        let claims = {
            use base64::Engine;
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims.to_string())
        };
        let mut secret = request("a", ObjectMeta::default());
        secret.metadata.namespace = Some("n".to_owned());
        secret.metadata.name = Some("s".to_owned());
        let data = [
            ("token", format!("a.{claims}.c")),
            ("namespace", "n".to_owned()),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
        secret.data = Some(data.into());
        if let Some(uid) = annotated {
            let annotation = (ACCOUNT_UID.to_owned(), uid.to_owned());
            secret.annotations_mut().extend([annotation]);
        }
        secret
    }

    #[test]
    fn token_belongs_to_one_account_uid() {
        let mut unfilled = request("a", ObjectMeta::default());
        let belongs_to = |secret: &Secret| belongs_to(secret, "a", Some("new"));
        assert!(belongs_to(&unfilled), "it has not been filled in");
        for (uid, expected) in [("new", true), ("old", false)] {
            let annotation = (ACCOUNT_UID.to_owned(), uid.to_owned());
            unfilled.annotations_mut().extend([annotation]);
            assert_eq!(belongs_to(&unfilled), expected, "{uid}");
        }
        let mut stuck = request("a", ObjectMeta::default());
        stuck.immutable = Some(true);
        assert!(!belongs_to(&stuck), "the controller cannot fill it in");
    }

    #[test]
    fn r37_secret_with_another_accounts_token_does_not_match() {
        let own = "system:serviceaccount:n:a";
        let mut elsewhere = secret(own, "u", Some("u"));
        let data = elsewhere.data.get_or_insert_default();
        data.insert("namespace".to_owned(), ByteString(b"m".to_vec()));
        let mut nameless = secret(own, "u", Some("u"));
        nameless.data.get_or_insert_default().remove("namespace");
        // A token is bound to the Secret that it was issued for.
        let mut borrowed = secret(own, "u", Some("u"));
        borrowed.metadata.name = Some("t".to_owned());
        let mut opaque = secret(own, "u", Some("u"));
        opaque.type_ = Some("Opaque".to_owned());
        let mut nonsense = secret(own, "u", Some("u"));
        let data = nonsense.data.get_or_insert_default();
        data.insert("token".to_owned(), ByteString(b"nonsense".to_vec()));
        for (secret, expected) in [
            (secret(own, "u", Some("u")), true),
            // The annotation is missing, but the token names the UID.
            (secret(own, "u", None), true),
            (secret(own, "v", None), false),
            (secret(own, "v", Some("u")), false),
            (secret(own, "u", Some("v")), false),
            (secret("system:serviceaccount:n:b", "u", Some("u")), false),
            (secret("system:serviceaccount:m:a", "u", Some("u")), false),
            (elsewhere, false),
            (nameless, false),
            (borrowed, false),
            (opaque, false),
            (nonsense, false),
        ] {
            assert_eq!(
                matches_account(&secret, "n", "a", Some("u")),
                expected,
                "{secret:?}"
            );
        }
    }

    #[test]
    fn extra_data_beside_a_token_is_dropped() {
        let mut secret = secret("s", "u", None);
        let data = secret.data.get_or_insert_default();
        for key in ["ca.crt", "psk", "x"] {
            data.insert(key.to_owned(), ByteString(vec![1]));
        }
        let data = for_distribution(secret).data.unwrap();
        assert_eq!(data.into_keys().collect::<Vec<_>>(), KEYS);
    }
}
