//! The status of an identity.

use insula_identity::shape::InvalidContent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::{ConditionWriter, valid_conditions};

/// Whether it can be used.
pub(in crate::provider) const AVAILABLE: &str = "Available";
/// How many of its users are listed.
const MAX_LISTED_USERS: usize = 5;

/// The status of an identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityStatus {
    /// Whether it can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// How many objects use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<i64>,
    /// Some of them, by kind, namespace and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
    /// Its conditions.
    #[serde(default, deserialize_with = "valid_conditions")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Returns the status of an identity; an empty one if it cannot be parsed.
pub(in crate::provider) fn status_of(identity: &DynamicObject) -> IdentityStatus {
    serde_json::from_value(identity.data["status"].clone()).unwrap_or_default()
}

/// Returns the identity with another status.
pub(super) fn with_status(identity: &DynamicObject, status: &IdentityStatus) -> DynamicObject {
    let mut after = identity.clone();
    if let (Value::Object(data), Ok(status)) = (&mut after.data, serde_json::to_value(status)) {
        data.insert("status".to_owned(), status);
    }
    after
}

/// The state of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It can be used.
    Available,
    /// It can be used, but its Secret is being deleted and exists only because it is held.
    AvailableWhileHeld(String),
    /// Its Secret does not exist.
    NoSecret(String),
    /// Its Secret is being deleted.
    SecretTerminating(String),
    /// An object of this kind holds its Secret.
    SecretHeld(String),
    /// Its Secret cannot be held.
    HoldFailed(String),
    /// Its Secret has other contents than it should.
    InvalidSecret {
        secret: String,
        invalid: InvalidContent,
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
            Self::AvailableWhileHeld(secret) => (
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
            Self::SecretHeld(kind) => (
                "SecretAlreadyInUse",
                format!("the Secret is used by another {kind}"),
            ),
            Self::HoldFailed(why) => ("SettingSecretOwnerReferenceFailed", why.clone()),
            Self::InvalidSecret { secret, invalid } => (
                "InvalidCredentials",
                match invalid {
                    InvalidContent::Lacks(keys) => {
                        format!("Secret {secret} has no {}", keys.join(" and no "))
                    }
                    other => format!("Secret {secret} {other}"),
                },
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
        matches!(self, Self::Available | Self::AvailableWhileHeld(_))
    }
}

/// Returns the identity with its new status; without users, those of its old status stay.
pub(super) fn conclude(
    identity: &DynamicObject,
    state: &State,
    users: Option<&[String]>,
    now: Timestamp,
) -> DynamicObject {
    let mut status = status_of(identity);
    status.ready = match state {
        // A usable identity stays usable until its last user is gone.
        State::Deleting(_) => status.ready,
        _ => Some(state.is_usable()),
    };
    if let Some(users) = users {
        status.users = Some(i64::try_from(users.len()).unwrap_or(i64::MAX));
        status.used_by = users.iter().take(MAX_LISTED_USERS).cloned().collect();
    }
    let mut writer = ConditionWriter {
        conditions: &mut status.conditions,
        generation: identity.metadata.generation,
        now,
    };
    writer.set_false("Paused", "NotPaused", "");
    let (reason, message) = state.reason_and_message();
    match state.is_usable() {
        true => writer.set_true(AVAILABLE, reason, message),
        false => writer.set_false(AVAILABLE, reason, message),
    }
    with_status(identity, &status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::find;
    use kube::api::ApiResource;

    fn identity(ready: Option<bool>) -> DynamicObject {
        let kind = ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk("g", "v1", "Cloud"));
        let spec = serde_json::json!({"status": {"ready": ready}});
        DynamicObject::new("shared", &kind).data(spec)
    }

    #[test]
    fn identity_is_ready_exactly_if_available() {
        let secret = || "capv-system/shared".to_owned();
        let invalid = |invalid| State::InvalidSecret {
            secret: secret(),
            invalid,
        };
        let lacks = |keys: &[&str]| {
            let keys = keys.iter().map(|&key| key.to_owned()).collect();
            invalid(InvalidContent::Lacks(keys))
        };
        for (state, ready, reason, message) in [
            (State::Available, true, "Available", ""),
            (
                State::AvailableWhileHeld(secret()),
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
                State::SecretHeld("VSphereCluster".to_owned()),
                false,
                "SecretAlreadyInUse",
                "the Secret is used by another VSphereCluster",
            ),
            (
                State::HoldFailed("no".to_owned()),
                false,
                "SettingSecretOwnerReferenceFailed",
                "no",
            ),
            (
                lacks(&["username", "password"]),
                false,
                "InvalidCredentials",
                "Secret capv-system/shared has no username and no password",
            ),
            (
                invalid(InvalidContent::NotText("password".to_owned())),
                false,
                "InvalidCredentials",
                "Secret capv-system/shared has a password that is not UTF-8 text",
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
            let mut identity = identity(Some(!ready));
            identity.metadata.generation = Some(2);
            let users: Vec<_> = (0..7)
                .map(|number| format!("VSphereCluster a/{number}"))
                .collect();
            let after = conclude(&identity, &state, Some(&users), Timestamp::UNIX_EPOCH);
            let status = status_of(&after);
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
            let identity = identity(ready);
            for (used, message) in [(None, ""), (Some("used".to_owned()), "used")] {
                let state = State::Deleting(used);
                let after = conclude(&identity, &state, Some(&[]), Timestamp::UNIX_EPOCH);
                let status = status_of(&after);
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
