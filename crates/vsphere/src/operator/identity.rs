//! Reconciles identities: claims their Secrets, checks them, and lists their users.

mod conclude;
mod users;

use std::collections::BTreeSet;

use insula_identity::users::summarize;
use insula_operator::event::NewEvent;
use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use tracing::info;

use self::conclude::{AVAILABLE, State, conclude};
use super::claim::{ClaimOutcome, claim, missing_keys, release};
use super::condition::find;
use super::context::{Context, Dependency};
use super::key::Key;
use super::read::get_named;
use super::resolve::{identity_claimant, invalid_server};
use super::{commit, event, paused};
use crate::kinds::VSphereClusterIdentity;
use crate::names::IDENTITY_FINALIZER;

/// Reconciles an identity.
pub(super) async fn reconcile(
    context: &Context,
    key: &Key,
    failures: u32,
) -> Result<Outcome, kube::Error> {
    let identities = Api::all(context.client(key.space.as_deref()));
    let Some(identity) = identities.get_opt(&key.name).await? else {
        context.forget(key);
        return Ok(Outcome::Gone);
    };
    let reconciliation = Reconciliation {
        context,
        key,
        identities,
    };
    if let Some(why) = paused::paused(None, &identity, "VSphereClusterIdentity") {
        return reconciliation.pause(&identity, &why).await;
    }
    match identity.metadata.deletion_timestamp {
        Some(_) => reconciliation.remove(&identity).await,
        None => reconciliation.reconcile_secret(identity, failures).await,
    }
}

struct Reconciliation<'a> {
    context: &'a Context,
    key: &'a Key,
    identities: Api<VSphereClusterIdentity>,
}

impl Reconciliation<'_> {
    async fn pause(
        &self,
        identity: &VSphereClusterIdentity,
        why: &str,
    ) -> Result<Outcome, kube::Error> {
        let mut after = identity.clone();
        let status = after.status.get_or_insert_default();
        let generation = identity.metadata.generation;
        paused::set_condition(
            &mut status.conditions,
            Some(why),
            generation,
            Timestamp::now(),
        );
        commit::status(&self.identities, identity, &after).await?;
        Ok(Outcome::Settled(self.context.resync_after(self.key)))
    }

    /// Claims its Secret and checks it, and writes the result to the status.
    async fn reconcile_secret(
        &self,
        identity: VSphereClusterIdentity,
        failures: u32,
    ) -> Result<Outcome, kube::Error> {
        let identity =
            commit::add_finalizer(&self.identities, &identity, IDENTITY_FINALIZER).await?;
        let mut depends = BTreeSet::new();
        let on = Dependency::Secret {
            space: self.key.space.clone(),
            namespace: self.context.operator_namespace.clone(),
            name: identity.spec.secret_name.clone(),
        };
        self.context.depend_on(self.key, &mut depends, on);
        let state = match self.check(&identity).await {
            Ok(state) => state,
            // A conflict is not expected to last.
            Err(error) if failures < MAX_UNREPORTED_FAILURES => return Err(error),
            Err(error) => State::ClaimFailed(error.to_string()),
        };
        let users = users::of(self.context, self.key, &identity, &mut depends).await?;
        let is_usable = state == State::Available;
        self.write_status(&identity, &state, &users).await?;
        self.context.set_dependencies(self.key, depends);
        Ok(match is_usable {
            true => Outcome::Settled(self.context.resync_after(self.key)),
            // The missing object is watched.
            false => Outcome::Waits(self.context.resync_after(self.key)),
        })
    }

    async fn check(&self, identity: &VSphereClusterIdentity) -> Result<State, kube::Error> {
        let (secrets, name) = (self.secrets(), &identity.spec.secret_name);
        let secret_name = format!("{}/{name}", self.context.operator_namespace);
        let claimant = identity_claimant(identity);
        let claimed = claim(&secrets, &claimant, name).await?;
        match claimed {
            ClaimOutcome::Claimed | ClaimOutcome::NoAccount => {}
            ClaimOutcome::NotFound => return Ok(State::NoSecret(secret_name)),
            ClaimOutcome::Terminating => return Ok(State::SecretTerminating(secret_name)),
            ClaimOutcome::ClaimedByOther(owner) => return Ok(State::SecretClaimed(owner.kind)),
        }
        let Some(secret) = get_named(&secrets, name).await? else {
            return Ok(State::NoSecret(secret_name));
        };
        let terminating = secret.metadata.deletion_timestamp.is_some();
        let missing = missing_keys(&secret);
        if !missing.is_empty() {
            return Ok(State::KeysMissing {
                secret: secret_name,
                missing,
            });
        }
        if claimed == ClaimOutcome::NoAccount {
            let of_type = secret.type_.unwrap_or_default();
            return Ok(State::WrongSecretType {
                secret: secret_name,
                of_type,
            });
        }
        let servers = identity.spec.allowed_servers.as_deref();
        Ok(
            match (invalid_server(servers.unwrap_or_default()), terminating) {
                (Some(wrong), _) => State::InvalidServers(wrong),
                (None, true) => State::AvailableWhileClaimed(secret_name),
                (None, false) => State::Available,
            },
        )
    }

    /// Deletes it with its Secret when it has no users.
    async fn remove(&self, identity: &VSphereClusterIdentity) -> Result<Outcome, kube::Error> {
        if !commit::has_finalizer(identity, IDENTITY_FINALIZER) {
            self.context.forget(self.key);
            return Ok(Outcome::Waits(self.context.resync_after(self.key)));
        }
        let mut depends = BTreeSet::new();
        let users = users::of(self.context, self.key, identity, &mut depends).await?;
        if !users.is_empty() {
            let message = format!("it is used by {}", summarize("", &users));
            let state = State::Deleting(Some(message));
            self.write_status(identity, &state, &users).await?;
            self.context.set_dependencies(self.key, depends);
            return Ok(Outcome::Waits(self.context.resync_after(self.key)));
        }
        self.write_status(identity, &State::Deleting(None), &users)
            .await?;
        let claimant = identity_claimant(identity);
        release(&self.secrets(), &claimant, &identity.spec.secret_name).await?;
        let identity = self.identities.get_opt(&self.key.name).await?;
        if let Some(identity) = identity.filter(|now| now.metadata.deletion_timestamp.is_some()) {
            commit::remove_finalizer(&self.identities, &identity, IDENTITY_FINALIZER).await?;
        }
        self.context.forget(self.key);
        info!(key = %self.key, "identity deleted");
        Ok(Outcome::Gone)
    }

    /// Writes the status, and records an event if the reason has changed.
    async fn write_status(
        &self,
        identity: &VSphereClusterIdentity,
        state: &State,
        users: &[String],
    ) -> Result<(), kube::Error> {
        let after = conclude(identity, state, users, Timestamp::now());
        commit::status(&self.identities, identity, &after).await?;
        let available = |identity: &VSphereClusterIdentity| {
            let conditions = &identity.status.as_ref()?.conditions;
            find(conditions, AVAILABLE).cloned()
        };
        let (before, now) = (available(identity), available(&after));
        let Some(now) = now else { return Ok(()) };
        let is_same = before.is_some_and(|before| before.reason == now.reason);
        if !is_same {
            // Events are written to a namespace, and its readers must not learn the names of
            // users in other namespaces.
            let note = match (state, now.message.as_str()) {
                (State::Deleting(Some(_)), _) => format!("it is used by {}", users.len()),
                (State::Deleting(None), _) => "nothing uses it any more".to_owned(),
                (_, "") => format!("{} can be used", self.key.name),
                (_, message) => message.to_owned(),
            };
            let note_event = NewEvent {
                warning: now.status != "True",
                reason: &now.reason,
                note,
            };
            event::record(self.context, self.key, &after, note_event).await;
        }
        Ok(())
    }

    /// Returns a client for the Secrets of identities.
    fn secrets(&self) -> Api<Secret> {
        let client = self.context.client(self.key.space.as_deref());
        Api::namespaced(client, &self.context.operator_namespace)
    }
}

/// How many failures are retried before a condition reports them.
const MAX_UNREPORTED_FAILURES: u32 = 2;
