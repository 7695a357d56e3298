//! Reconciles identities: claims their Secrets, checks them, and lists their users.

mod conclude;
mod users;

use std::collections::BTreeSet;

use insula_identity::users::told;
use insula_operator::event::Told;
use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use tracing::info;

use self::conclude::{AVAILABLE, State, conclude};
use super::claim::{Claimed, claim, give_up, missing};
use super::condition::find;
use super::context::{Context, Dependency};
use super::identify::{claimant_of_identity, unreadable};
use super::key::Key;
use super::read::named;
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
    let work = Work {
        context,
        key,
        identities,
    };
    if let Some(why) = paused::paused(None, &identity, "VSphereClusterIdentity") {
        return work.pause(&identity, &why).await;
    }
    match identity.metadata.deletion_timestamp {
        Some(_) => work.remove(&identity).await,
        None => work.look_after(identity, failures).await,
    }
}

struct Work<'a> {
    context: &'a Context,
    key: &'a Key,
    identities: Api<VSphereClusterIdentity>,
}

impl Work<'_> {
    async fn pause(
        &self,
        identity: &VSphereClusterIdentity,
        why: &str,
    ) -> Result<Outcome, kube::Error> {
        let mut after = identity.clone();
        let status = after.status.get_or_insert_default();
        let generation = identity.metadata.generation;
        paused::say(
            &mut status.conditions,
            Some(why),
            generation,
            Timestamp::now(),
        );
        commit::status(&self.identities, identity, &after).await?;
        Ok(Outcome::Settled(self.context.anyway(self.key)))
    }

    /// Claims its Secret and checks it, and writes the result to the status.
    async fn look_after(
        &self,
        identity: VSphereClusterIdentity,
        failures: u32,
    ) -> Result<Outcome, kube::Error> {
        let identity = commit::hold(&self.identities, &identity, IDENTITY_FINALIZER).await?;
        let mut depends = BTreeSet::new();
        let on = Dependency::Secret {
            space: self.key.space.clone(),
            namespace: self.context.home.clone(),
            name: identity.spec.secret_name.clone(),
        };
        self.context.note(self.key, &mut depends, on);
        let state = match self.check(&identity).await {
            Ok(state) => state,
            // A conflict is not expected to last.
            Err(error) if failures < HICCUPS => return Err(error),
            Err(error) => State::NotHeld(error.to_string()),
        };
        let users = users::of(self.context, self.key, &identity, &mut depends).await?;
        let is_fit = state == State::Available;
        self.tell(&identity, &state, &users).await?;
        self.context.settle(self.key, depends);
        Ok(match is_fit {
            true => Outcome::Settled(self.context.anyway(self.key)),
            // The missing object is watched.
            false => Outcome::Waits(self.context.anyway(self.key)),
        })
    }

    async fn check(&self, identity: &VSphereClusterIdentity) -> Result<State, kube::Error> {
        let (secrets, name) = (self.secrets(), &identity.spec.secret_name);
        let told = format!("{}/{name}", self.context.home);
        let claimant = claimant_of_identity(identity);
        let claimed = claim(&secrets, &claimant, name).await?;
        match claimed {
            Claimed::Held | Claimed::Unfit => {}
            Claimed::Absent => return Ok(State::NoSecret(told)),
            Claimed::Going => return Ok(State::SecretGoing(told)),
            Claimed::Taken(owner) => return Ok(State::SecretTaken(owner.kind)),
        }
        let Some(secret) = named(&secrets, name).await? else {
            return Ok(State::NoSecret(told));
        };
        let going = secret.metadata.deletion_timestamp.is_some();
        let missing = missing(&secret);
        if !missing.is_empty() {
            return Ok(State::Incomplete {
                secret: told,
                missing,
            });
        }
        if claimed == Claimed::Unfit {
            let of_type = secret.type_.unwrap_or_default();
            return Ok(State::OddSecret {
                secret: told,
                of_type,
            });
        }
        let servers = identity.spec.allowed_servers.as_deref();
        Ok(match (unreadable(servers.unwrap_or_default()), going) {
            (Some(wrong), _) => State::InvalidServers(wrong),
            (None, true) => State::KeptOnly(told),
            (None, false) => State::Available,
        })
    }

    /// Deletes it with its Secret when it has no users.
    async fn remove(&self, identity: &VSphereClusterIdentity) -> Result<Outcome, kube::Error> {
        if !commit::is_held(identity, IDENTITY_FINALIZER) {
            self.context.forget(self.key);
            return Ok(Outcome::Waits(self.context.anyway(self.key)));
        }
        let mut depends = BTreeSet::new();
        let users = users::of(self.context, self.key, identity, &mut depends).await?;
        if !users.is_empty() {
            let told = format!("it is used by {}", told("", &users));
            let state = State::Deleting(Some(told));
            self.tell(identity, &state, &users).await?;
            self.context.settle(self.key, depends);
            return Ok(Outcome::Waits(self.context.anyway(self.key)));
        }
        self.tell(identity, &State::Deleting(None), &users).await?;
        let claimant = claimant_of_identity(identity);
        give_up(&self.secrets(), &claimant, &identity.spec.secret_name).await?;
        let identity = self.identities.get_opt(&self.key.name).await?;
        if let Some(identity) = identity.filter(|now| now.metadata.deletion_timestamp.is_some()) {
            commit::let_go(&self.identities, &identity, IDENTITY_FINALIZER).await?;
        }
        self.context.forget(self.key);
        info!(key = %self.key, "identity deleted");
        Ok(Outcome::Gone)
    }

    /// Writes the status, and records an event if the reason has changed.
    async fn tell(
        &self,
        identity: &VSphereClusterIdentity,
        state: &State,
        users: &[String],
    ) -> Result<(), kube::Error> {
        let after = conclude(identity, state, users, Timestamp::now());
        commit::status(&self.identities, identity, &after).await?;
        let told = |identity: &VSphereClusterIdentity| {
            let conditions = &identity.status.as_ref()?.conditions;
            find(conditions, AVAILABLE).cloned()
        };
        let (before, now) = (told(identity), told(&after));
        let Some(now) = now else { return Ok(()) };
        let is_same = before.is_some_and(|before| before.reason == now.reason);
        if !is_same {
            // Events are written to a namespace, and its readers must not learn the names of
            // users in other namespaces.
            let note = match (state, now.message.as_str()) {
                (State::Deleting(Some(_)), _) => format!("it is used by {}", users.len()),
                (State::Deleting(None), _) => "nothing uses it any more".to_owned(),
                (_, "") => format!("{} is fit for use", self.key.name),
                (_, message) => message.to_owned(),
            };
            let told = Told {
                warning: now.status != "True",
                reason: &now.reason,
                note,
            };
            event::tell(self.context, self.key, &after, told).await;
        }
        Ok(())
    }

    /// Returns a client for the Secrets of identities.
    fn secrets(&self) -> Api<Secret> {
        let client = self.context.client(self.key.space.as_deref());
        Api::namespaced(client, &self.context.home)
    }
}

/// How many failures are retried before a condition reports them.
const HICCUPS: u32 = 2;
