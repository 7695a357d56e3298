//! Creation and repair of managed objects.
//!
//! Only the fields that the operator sets are compared: additions of other writers, such as
//! labels, are kept.

mod kinds;
pub mod overlay;
mod workload;

use std::fmt::Debug;

use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Error, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of object that an operator manages.
pub trait Managed: Resource + Clone + Debug + Serialize + DeserializeOwned {
    /// Compares the object that was found with this desired one.
    fn diff(&self, found: &Self) -> Drift<Self>;
}

/// The difference between an object and its desired state.
#[derive(Clone, Debug, PartialEq)]
pub enum Drift<K> {
    /// The object is as desired.
    InSync,
    /// The object has to be replaced by this one, which has the resource version of the object
    /// that was found.
    Replace(Box<K>),
    /// An immutable field differs: the object has to be deleted and created again.
    Recreate,
}

/// The effect of `ensure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// The object was as desired.
    Unchanged,
    /// The object was created.
    Created,
    /// The object was replaced.
    Replaced,
}

/// The number of attempts when concurrent writers interfere.
const MAX_ATTEMPTS: usize = 8;

/// Ensures that an object exists in its desired state.
///
/// # Errors
///
/// The server's error; a conflict only after repeated attempts.
pub async fn ensure<K: Managed>(api: &Api<K>, wanted: &K) -> Result<Ensured, Error> {
    ensure_by(api, wanted, K::diff).await
}

/// Like [`ensure`], with a comparison of the caller's: `diff` gets the desired object and the
/// one that was found.
///
/// # Errors
///
/// As for [`ensure`].
pub async fn ensure_by<K>(
    api: &Api<K>,
    wanted: &K,
    diff: impl Fn(&K, &K) -> Drift<K>,
) -> Result<Ensured, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let mut attempts = MAX_ATTEMPTS;
    loop {
        attempts -= 1;
        match attempt(api, wanted, &diff).await {
            Err(error) if attempts > 0 && is_race(&error) => {}
            done => return done,
        }
    }
}

async fn attempt<K>(
    api: &Api<K>,
    wanted: &K,
    diff: impl Fn(&K, &K) -> Drift<K>,
) -> Result<Ensured, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let name = wanted.name_any();
    let Some(found) = api.get_opt(&name).await? else {
        api.create(&PostParams::default(), wanted).await?;
        return Ok(Ensured::Created);
    };
    match diff(wanted, &found) {
        Drift::InSync => return Ok(Ensured::Unchanged),
        Drift::Replace(replacement) => {
            api.replace(&name, &PostParams::default(), &replacement)
                .await?;
        }
        Drift::Recreate => {
            let only_this = DeleteParams::default().preconditions(Preconditions {
                uid: found.uid(),
                resource_version: found.resource_version(),
            });
            api.delete(&name, &only_this).await?;
            api.create(&PostParams::default(), wanted).await?;
        }
    }
    Ok(Ensured::Replaced)
}

/// Returns whether another writer changed, created or deleted the object between the read and
/// the write.
fn is_race(error: &Error) -> bool {
    let Error::Api(status) = error else {
        return false;
    };
    let gone_meanwhile = |status: &Status| status.is_not_found() && status.details.is_some();
    status.is_conflict() || status.is_already_exists() || gone_meanwhile(status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conflicts_and_deletions_are_races() {
        let answered = |code, reason: &str, details: bool| {
            let status = Status {
                code,
                reason: reason.to_owned(),
                details: details.then(|| serde_json::from_value(json!({})).expect("details")),
                ..Status::default()
            };
            Error::Api(status.boxed())
        };
        for (code, reason, details, race) in [
            (409, "Conflict", true, true),
            (409, "AlreadyExists", true, true),
            (404, "NotFound", true, true),
            // A path that the server does not serve has no details.
            (404, "NotFound", false, false),
            (403, "Forbidden", true, false),
            (422, "Invalid", true, false),
            (500, "InternalError", true, false),
        ] {
            let error = answered(code, reason, details);
            assert_eq!(is_race(&error), race, "{code} {reason} {details}");
        }
        assert!(!is_race(&Error::Service("cut".into())));
    }
}
