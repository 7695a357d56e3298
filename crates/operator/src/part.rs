//! Whether an object is as it should be, and what to do if not.
//!
//! Only what we set is judged: what others add to an object, such as labels of their own,
//! is theirs and stays.

mod judge;
pub mod overlay;
mod workload;

use std::fmt::Debug;

use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Error, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of object that is kept as it should be.
pub trait Part: Resource + Clone + Debug + Serialize + DeserializeOwned {
    /// What is to be done about one that was found, if this is how it should be.
    fn judge(&self, found: &Self) -> Verdict<Self>;
}

/// What is to be done about an object that was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict<K> {
    /// Nothing: it is as it should be.
    Right,
    /// It is to be replaced by this, which has the version of the one that was found.
    Replace(Box<K>),
    /// What is wrong cannot be changed: it is to be deleted and made anew.
    Recreate,
}

/// What was done about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// Nothing: it was as it should be.
    Kept,
    /// It was not there.
    Created,
    /// It was otherwise.
    Replaced,
}

/// How often somebody else may be faster before we give up.
const TRIES: usize = 8;

/// Makes sure that an object is there and as it should be.
///
/// # Errors
///
/// What the server answers; a conflict only after others were faster again and again.
pub async fn ensure<K: Part>(api: &Api<K>, wanted: &K) -> Result<Ensured, Error> {
    ensure_by(api, wanted, K::judge).await
}

/// The same for an object that somebody else judges: `judge` gets what is wanted and what
/// was found.
///
/// # Errors
///
/// As above.
pub async fn ensure_by<K>(
    api: &Api<K>,
    wanted: &K,
    judge: impl Fn(&K, &K) -> Verdict<K>,
) -> Result<Ensured, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match attempt(api, wanted, &judge).await {
            Err(error) if tries > 0 && is_race(&error) => {}
            done => return done,
        }
    }
}

async fn attempt<K>(
    api: &Api<K>,
    wanted: &K,
    judge: impl Fn(&K, &K) -> Verdict<K>,
) -> Result<Ensured, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let name = wanted.name_any();
    let Some(found) = api.get_opt(&name).await? else {
        api.create(&PostParams::default(), wanted).await?;
        return Ok(Ensured::Created);
    };
    match judge(wanted, &found) {
        Verdict::Right => return Ok(Ensured::Kept),
        Verdict::Replace(replacement) => {
            api.replace(&name, &PostParams::default(), &replacement)
                .await?;
        }
        Verdict::Recreate => {
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

/// Whether somebody else changed, made or deleted the object between our looking and our
/// writing.
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
    fn only_what_another_look_can_mend_is_a_race() {
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
            // A path that the server does not have has no details.
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
