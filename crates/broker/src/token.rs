//! The tokens of service accounts that are kept in Secrets.
//!
//! Since 1.24 Kubernetes makes none by itself: whoever wants one makes a Secret that asks
//! for it, and waits.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use crate::error::Error;

/// The type of Secrets that hold an account's token.
pub const TYPE: &str = "kubernetes.io/service-account-token";
/// Says which account a Secret asks for the token of.
pub const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// Says which of all accounts that ever had the name, once it has been filled in.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Says who made a Secret.
const CREATED_BY: (&str, &str) = ("kubernetes.io/created-by", "subctl");

/// How long the server may take to fill a Secret in: it is done in a moment or not at all.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// The first pause between two looks.
const PAUSE: Duration = Duration::from_millis(30);

/// A Secret that asks for the token of an account.
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

/// The token in a Secret, if it has been made.
pub fn of(secret: &Secret) -> Option<&[u8]> {
    let data: &BTreeMap<_, _> = secret.data.as_ref()?;
    let token = &data.get("token")?.0;
    (!token.is_empty()).then_some(token)
}

/// Whether a Secret is there for the token of this account.
pub fn is_for(secret: &Secret, account: &str) -> bool {
    let named = secret.annotations().get(ACCOUNT).map(String::as_str);
    named == Some(account) && secret.type_.as_deref() == Some(TYPE)
}

/// The Secret with the token of an account, made if there is none, once it has been filled
/// in. Others are looked for by what they say, never by their name: clusters have had many
/// habits of naming them.
///
/// # Errors
///
/// What the server answers; [`Error::NoToken`] if it does not make one in time.
pub async fn ensure(
    secrets: &Api<Secret>,
    account: &str,
    patience: Duration,
) -> Result<Secret, Error> {
    let found = find(secrets, account).await?;
    fill(secrets, account, found, patience).await
}

/// The same for an account that is at hand. A token of one that had its name before is not
/// taken for its own: it may be there for a while, and is worth nothing.
///
/// # Errors
///
/// As of [`ensure`].
pub async fn ensure_for(
    secrets: &Api<Secret>,
    account: &ServiceAccount,
    patience: Duration,
) -> Result<Secret, Error> {
    let found = find_for(secrets, account).await?;
    fill(secrets, &account.name_any(), found, patience).await
}

/// The Secret with the token of an account that is at hand, if there is one; one that has a
/// token first.
///
/// # Errors
///
/// What the server answers.
pub async fn find_for(
    secrets: &Api<Secret>,
    account: &ServiceAccount,
) -> Result<Option<Secret>, Error> {
    let candidates = candidates(secrets, &account.name_any()).await?;
    let mut candidates = candidates.into_iter();
    Ok(candidates.find(|secret| is_its(secret, account)))
}

/// Whether a Secret is not of another account that had the name before.
fn is_its(secret: &Secret, account: &ServiceAccount) -> bool {
    let named = secret.annotations().get(ACCOUNT_UID);
    named.is_none_or(|named| account.uid().as_ref() == Some(named))
}

/// Waits for what was found to be filled in, or asks for a token.
async fn fill(
    secrets: &Api<Secret>,
    account: &str,
    found: Option<Secret>,
    patience: Duration,
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
            let attempted = format!("make a token for service account {account}");
            made.map_err(Error::when(attempted))?
        }
    };
    wait(secrets, secret, patience).await
}

/// The Secret with the token of an account, if there is one; one that has a token first.
///
/// # Errors
///
/// What the server answers.
pub async fn find(secrets: &Api<Secret>, account: &str) -> Result<Option<Secret>, Error> {
    let candidates = candidates(secrets, account).await?;
    Ok(candidates.into_iter().next())
}

/// The Secrets that are there for the token of an account; those that have one first.
async fn candidates(secrets: &Api<Secret>, account: &str) -> Result<Vec<Secret>, Error> {
    let tokens = ListParams::default().fields(&format!("type={TYPE}"));
    let listed = secrets.list(&tokens).await;
    let attempted = format!("look for the token of service account {account}");
    let listed = listed.map_err(Error::when(attempted))?;
    let mut mine: Vec<_> = listed
        .items
        .into_iter()
        .filter(|secret| is_for(secret, account) && secret.metadata.deletion_timestamp.is_none())
        .collect();
    mine.sort_by_key(|secret| of(secret).is_none());
    Ok(mine)
}

/// Waits until a Secret has been filled in.
async fn wait(secrets: &Api<Secret>, first: Secret, patience: Duration) -> Result<Secret, Error> {
    let name = first.name_any();
    let deadline = Instant::now() + patience;
    let (mut secret, mut pause) = (first, PAUSE);
    while of(&secret).is_none() {
        if Instant::now() >= deadline {
            return Err(Error::NoToken { secret: name });
        }
        tokio::time::sleep(pause).await;
        pause = pause.mul_f32(1.3);
        let read = secrets.get(&name).await;
        secret = read.map_err(Error::when(format!("read secret {name}")))?;
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_account_among_all_that_had_the_name() {
        let mut account = ServiceAccount::default();
        account.metadata.uid = Some("new".to_owned());
        let mut secret = request("a", ObjectMeta::default());
        assert!(is_its(&secret, &account), "it has not been filled in");
        for (uid, expected) in [("new", true), ("old", false)] {
            let annotation = (ACCOUNT_UID.to_owned(), uid.to_owned());
            secret.annotations_mut().extend([annotation]);
            assert_eq!(is_its(&secret, &account), expected, "{uid}");
        }
    }
}
