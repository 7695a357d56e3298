//! Reconciles identities: holds their Secrets, checks them, and lists their users.

mod status;
mod users;

use insula_identity::claim::{Claimant, Hold};
use insula_identity::users::summarize;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tracing::info;

use self::status::{State, conclude};
use super::hold::{HoldOutcome, check_content, end_hold, take_hold};
use super::{IdentityKind, Provider, Reconciliation};
use crate::commit;
use crate::condition::{NewCondition, find, set};
use crate::event::NewEvent;
use crate::read::get_named;
use crate::retry::Outcome;

pub use status::IdentityStatus;
pub(super) use status::{AVAILABLE, status_of};

/// How many failures are retried before a condition reports them.
const MAX_UNREPORTED_FAILURES: u32 = 2;

/// Returns the name of an identity's Secret.
pub(super) fn secret_name(identity: &DynamicObject) -> &str {
    let name = identity.data["spec"]["secretName"].as_str();
    name.unwrap_or_default()
}

/// Returns the kind and the name that an object references in `spec.identityRef`; its other
/// fields may be invalid.
pub(super) fn reference_of(object: &DynamicObject) -> Option<(&str, &str)> {
    let reference = &object.data["spec"]["identityRef"];
    let text = |key: &str| reference.get(key).and_then(Value::as_str);
    text("kind").zip(text("name"))
}

/// Reconciles an identity.
pub(super) async fn reconcile<P: Provider>(
    of: &Reconciliation<'_, P>,
    kind: &'static IdentityKind,
) -> Result<Outcome, kube::Error> {
    let resource = (kind.resource)();
    let identities: Api<DynamicObject> = Api::all_with(of.client(), &resource);
    let Some(identity) = identities.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let reconciler = Reconciler {
        of,
        kind,
        resource,
        identities,
    };
    if identity
        .annotations()
        .contains_key(P::NAMES.pause_annotation)
    {
        return reconciler.pause(&identity).await;
    }
    match identity.metadata.deletion_timestamp {
        Some(_) => reconciler.remove(&identity).await,
        None => reconciler.reconcile_secret(identity).await,
    }
}

struct Reconciler<'a, P: Provider> {
    of: &'a Reconciliation<'a, P>,
    kind: &'static IdentityKind,
    resource: ApiResource,
    identities: Api<DynamicObject>,
}

impl<P: Provider> Reconciler<'_, P> {
    async fn pause(&self, identity: &DynamicObject) -> Result<Outcome, kube::Error> {
        let (kind, annotation) = (self.kind.kind, P::NAMES.pause_annotation);
        let message = format!("{kind} has the {annotation} annotation");
        let mut status = status_of(identity);
        let paused = NewCondition {
            kind: "Paused",
            status: true,
            reason: "Paused",
            message,
            generation: identity.metadata.generation,
        };
        set(&mut status.conditions, paused, Timestamp::now());
        let after = status::with_status(identity, &status);
        commit::status(&self.identities, identity, &after).await?;
        Ok(Outcome::Settled(self.of.resync_after()))
    }

    /// Holds its Secret and checks it, and writes the result to the status.
    async fn reconcile_secret(&self, identity: DynamicObject) -> Result<Outcome, kube::Error> {
        let finalizer = self.kind.finalizer;
        let identity = commit::add_finalizer(&self.identities, &identity, finalizer).await?;
        let namespace = self.of.context.operator_namespace.as_str();
        self.of
            .depend_on_object::<Secret>(Some(namespace), secret_name(&identity));
        let state = match self.check(&identity).await {
            Ok(state) => state,
            // A conflict is not expected to last.
            Err(error) if self.of.failures < MAX_UNREPORTED_FAILURES => return Err(error),
            Err(error) => State::HoldFailed(error.to_string()),
        };
        // Counting users may take long or fail, which must not delay the report about the Secret.
        let identity = self.write_status(identity, &state, None).await?;
        let users = users::of(self.of, self.kind, &identity).await?;
        self.write_status(identity, &state, Some(&users)).await?;
        let resync = self.of.resync_after();
        Ok(match state {
            State::Available => Outcome::Settled(resync),
            // The missing object is watched.
            _ => Outcome::Waits(resync),
        })
    }

    async fn check(&self, identity: &DynamicObject) -> Result<State, kube::Error> {
        let (secrets, name) = (self.secrets(), secret_name(identity));
        let secret_name = format!("{}/{name}", self.of.context.operator_namespace);
        let held = take_hold(&secrets, &self.hold(identity), P::SHAPE, name).await?;
        match held {
            HoldOutcome::Held | HoldOutcome::NoCredential => {}
            HoldOutcome::NotFound => return Ok(State::NoSecret(secret_name)),
            HoldOutcome::Terminating => return Ok(State::SecretTerminating(secret_name)),
            HoldOutcome::HeldByOther(owner) => return Ok(State::SecretHeld(owner.kind)),
        }
        let Some(secret) = get_named(&secrets, name).await? else {
            return Ok(State::NoSecret(secret_name));
        };
        let terminating = secret.metadata.deletion_timestamp.is_some();
        if let Err(invalid) = check_content(&secret, P::SHAPE) {
            return Ok(State::InvalidSecret {
                secret: secret_name,
                invalid,
            });
        }
        if held == HoldOutcome::NoCredential {
            let of_type = secret.type_.unwrap_or_default();
            return Ok(State::WrongSecretType {
                secret: secret_name,
                of_type,
            });
        }
        let bound = (self.kind.bound)(&identity.data["spec"]);
        Ok(match (bound, terminating) {
            (Err(wrong), _) => State::InvalidServers(wrong),
            (Ok(_), true) => State::AvailableWhileHeld(secret_name),
            (Ok(_), false) => State::Available,
        })
    }

    /// Deletes it with its Secret when it has no users.
    async fn remove(&self, identity: &DynamicObject) -> Result<Outcome, kube::Error> {
        let finalizer = self.kind.finalizer;
        if !commit::has_finalizer(identity, finalizer) {
            return Ok(Outcome::Waits(self.of.resync_after()));
        }
        let users = users::of(self.of, self.kind, identity).await?;
        if !users.is_empty() {
            let message = format!("it is used by {}", summarize("", &users));
            let state = State::Deleting(Some(message));
            self.write_status(identity.clone(), &state, Some(&users))
                .await?;
            return Ok(Outcome::Waits(self.of.resync_after()));
        }
        self.write_status(identity.clone(), &State::Deleting(None), Some(&users))
            .await?;
        let (hold, name) = (self.hold(identity), secret_name(identity));
        end_hold(&self.secrets(), &hold, P::SHAPE, name, false).await?;
        let identity = self.identities.get_opt(&self.of.key.name).await?;
        if let Some(identity) = identity.filter(|now| now.metadata.deletion_timestamp.is_some()) {
            commit::remove_finalizer(&self.identities, &identity, finalizer).await?;
        }
        info!(key = %self.of.key, "identity deleted");
        Ok(Outcome::Gone)
    }

    /// Writes the status, and records an event if the reason has changed. Returns the identity as
    /// it is stored.
    async fn write_status(
        &self,
        identity: DynamicObject,
        state: &State,
        users: Option<&[String]>,
    ) -> Result<DynamicObject, kube::Error> {
        let after = conclude(&identity, state, users, Timestamp::now());
        let stored = commit::status(&self.identities, &identity, &after).await?;
        let available =
            |identity: &DynamicObject| find(&status_of(identity).conditions, AVAILABLE).cloned();
        let (before, now) = (available(&identity), available(&after));
        let stored = stored.unwrap_or(identity);
        let Some(now) = now else { return Ok(stored) };
        if before.is_some_and(|before| before.reason == now.reason) {
            return Ok(stored);
        }
        // Events are written to a namespace, and its readers must not learn the names of users in
        // other namespaces.
        let note = match (state, now.message.as_str()) {
            (State::Deleting(Some(_)), _) => {
                format!("it is used by {}", users.unwrap_or_default().len())
            }
            (State::Deleting(None), _) => "nothing uses it any more".to_owned(),
            (_, "") => format!("{} can be used", self.of.key.name),
            (_, message) => message.to_owned(),
        };
        let event = NewEvent {
            warning: now.status != "True",
            reason: &now.reason,
            note,
        };
        self.of.record_event_of(&after, &self.resource, event).await;
        Ok(stored)
    }

    /// Returns its hold on its Secret.
    fn hold(&self, identity: &DynamicObject) -> Hold {
        Hold::One(P::NAMES.claimant(self.kind.kind, identity))
    }

    /// Returns a client for the Secrets of identities.
    fn secrets(&self) -> Api<Secret> {
        self.of.secrets(&self.of.context.operator_namespace)
    }
}

impl super::Names {
    /// Returns an object as the claimant of a Secret.
    pub fn claimant(&self, kind: &str, object: &impl ResourceExt) -> Claimant {
        Claimant {
            api_version: self.api_version.to_owned(),
            kind: kind.to_owned(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            kinds: self.claimant_kinds,
            finalizer: self.secret_finalizer,
        }
    }
}
