//! The status of an identity.

use k8s_openapi::jiff::Timestamp;

use crate::kinds::VSphereClusterIdentity;
use crate::operator::condition::ConditionWriter;
use crate::operator::paused;

/// Whether it can be used.
pub(super) const AVAILABLE: &str = "Available";
/// How many of its users are listed.
const MAX_LISTED_USERS: usize = 5;

/// The state of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It can be used.
    Available,
    /// It can be used, but its Secret is being deleted and exists only because it is claimed.
    AvailableWhileClaimed(String),
    /// Its Secret does not exist.
    NoSecret(String),
    /// Its Secret is being deleted.
    SecretTerminating(String),
    /// An object of this kind has claimed its Secret.
    SecretClaimed(String),
    /// Its Secret cannot be claimed.
    ClaimFailed(String),
    /// Its Secret lacks required keys.
    KeysMissing {
        secret: String,
        missing: Vec<&'static str>,
    },
    /// Its Secret is of a type with another purpose.
    WrongSecretType { secret: String, of_type: String },
    /// One of its servers is invalid.
    InvalidServers(String),
    /// It is being deleted, and waits for its users if there are any.
    Deleting(Option<String>),
}

impl State {
    /// Returns reason and message of the condition.
    fn reason_and_message(&self) -> (&'static str, String) {
        match self {
            Self::Available => ("Available", String::new()),
            Self::AvailableWhileClaimed(secret) => (
                "Available",
                format!("Secret {secret} is being deleted, and exists only while it is used"),
            ),
            Self::NoSecret(secret) => {
                ("SecretNotAvailable", format!("there is no Secret {secret}"))
            }
            Self::SecretTerminating(secret) => (
                "SecretNotAvailable",
                format!("Secret {secret} is being deleted"),
            ),
            Self::SecretClaimed(kind) => (
                "SecretAlreadyInUse",
                format!("the Secret is used by another {kind}"),
            ),
            Self::ClaimFailed(why) => ("SettingSecretOwnerReferenceFailed", why.clone()),
            Self::KeysMissing { secret, missing } => (
                "InvalidCredentials",
                format!("Secret {secret} has no {}", missing.join(" and no ")),
            ),
            Self::WrongSecretType { secret, of_type } => (
                "InvalidCredentials",
                format!("Secret {secret} is of type {of_type}, which cannot contain an account"),
            ),
            Self::InvalidServers(wrong) => ("InvalidServers", wrong.clone()),
            Self::Deleting(users) => ("Deleting", users.clone().unwrap_or_default()),
        }
    }

    fn is_usable(&self) -> bool {
        matches!(self, Self::Available | Self::AvailableWhileClaimed(_))
    }
}

/// Returns the identity with its new status.
pub(super) fn conclude(
    identity: &VSphereClusterIdentity,
    state: &State,
    users: &[String],
    now: Timestamp,
) -> VSphereClusterIdentity {
    let mut after = identity.clone();
    let status = after.status.get_or_insert_default();
    status.ready = match state {
        // A usable identity stays usable until its last user is gone.
        State::Deleting(_) => status.ready,
        _ => Some(state.is_usable()),
    };
    status.users = Some(i64::try_from(users.len()).unwrap_or(i64::MAX));
    status.used_by = users.iter().take(MAX_LISTED_USERS).cloned().collect();
    let generation = identity.metadata.generation;
    paused::set_condition(&mut status.conditions, None, generation, now);
    let mut writer = ConditionWriter {
        conditions: &mut status.conditions,
        generation,
        now,
    };
    let (reason, message) = state.reason_and_message();
    match state.is_usable() {
        true => writer.set_true(AVAILABLE, reason, message),
        false => writer.set_false(AVAILABLE, reason, message),
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::condition::find;

    #[test]
    fn identity_is_ready_exactly_if_available() {
        let secret = || "capv-system/shared".to_owned();
        let incomplete = |missing: &[&'static str]| State::KeysMissing {
            secret: secret(),
            missing: missing.to_vec(),
        };
        for (state, ready, reason, message) in [
            (State::Available, true, "Available", ""),
            (
                State::AvailableWhileClaimed(secret()),
                true,
                "Available",
                "Secret capv-system/shared is being deleted, and exists only while it is used",
            ),
            (
                State::NoSecret(secret()),
                false,
                "SecretNotAvailable",
                "there is no Secret capv-system/shared",
            ),
            (
                State::SecretTerminating(secret()),
                false,
                "SecretNotAvailable",
                "Secret capv-system/shared is being deleted",
            ),
            (
                State::SecretClaimed("VSphereCluster".to_owned()),
                false,
                "SecretAlreadyInUse",
                "the Secret is used by another VSphereCluster",
            ),
            (
                State::ClaimFailed("no".to_owned()),
                false,
                "SettingSecretOwnerReferenceFailed",
                "no",
            ),
            (
                incomplete(&["username", "password"]),
                false,
                "InvalidCredentials",
                "Secret capv-system/shared has no username and no password",
            ),
            (
                State::WrongSecretType {
                    secret: secret(),
                    of_type: "kubernetes.io/tls".to_owned(),
                },
                false,
                "InvalidCredentials",
                "Secret capv-system/shared is of type kubernetes.io/tls, which cannot contain an account",
            ),
            (
                State::InvalidServers("no".to_owned()),
                false,
                "InvalidServers",
                "no",
            ),
        ] {
            let mut identity = VSphereClusterIdentity::default();
            identity.metadata.generation = Some(2);
            identity.status.get_or_insert_default().ready = Some(!ready);
            let users: Vec<_> = (0..7)
                .map(|number| format!("VSphereCluster a/{number}"))
                .collect();
            let after = conclude(&identity, &state, &users, Timestamp::UNIX_EPOCH);
            let status = after.status.unwrap();
            assert_eq!(status.ready, Some(ready), "{state:?}");
            assert_eq!(status.users, Some(7));
            assert_eq!(status.used_by, users[..5]);
            let available = find(&status.conditions, AVAILABLE).unwrap();
            assert_eq!(available.status, if ready { "True" } else { "False" });
            assert_eq!((&*available.reason, &*available.message), (reason, message));
            assert_eq!(available.observed_generation, Some(2));
            let paused = find(&status.conditions, "Paused").unwrap();
            assert_eq!((&*paused.status, &*paused.reason), ("False", "NotPaused"));
        }
    }

    #[test]
    fn deletion_does_not_make_an_identity_ready() {
        for ready in [None, Some(false), Some(true)] {
            let mut identity = VSphereClusterIdentity::default();
            identity.status.get_or_insert_default().ready = ready;
            for (used, message) in [(None, ""), (Some("used".to_owned()), "used")] {
                let state = State::Deleting(used);
                let after = conclude(&identity, &state, &[], Timestamp::UNIX_EPOCH);
                let status = after.status.unwrap();
                assert_eq!(status.ready, ready);
                let available = find(&status.conditions, AVAILABLE).unwrap();
                assert_eq!(available.status, "False");
                assert_eq!(
                    (&*available.reason, &*available.message),
                    ("Deleting", message)
                );
            }
        }
    }
}
