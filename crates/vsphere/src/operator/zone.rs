//! Reconciles zones: checks that the inventory has what they name, with the credential of the
//! identity that they reference or with the operator's static credentials.

mod conclude;
mod look;

use std::collections::BTreeSet;
use std::time::Duration;

use insula_identity::decide::Refusal;
use insula_identity::session::NotNow;
use insula_operator::event::Told;
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use tracing::debug;

use self::conclude::{Found, Sight, conclude};
use super::condition::{READY, find};
use super::context::{Context, Dependency};
use super::identify::{self, Access};
use super::key::Key;
use super::read::named;
use super::{commit, event, paused};
use crate::kinds::{VSphereDeploymentZone, VSphereFailureDomain};
use crate::names::is_name;
use crate::vcenter;

/// The longest wait for a change that is watched.
const WAITING: Duration = Duration::from_secs(30);
/// How many failed requests to the API server are retried before a condition reports them.
const HICCUPS: u32 = 2;

/// Reconciles a zone.
pub(super) async fn reconcile(
    context: &Context,
    key: &Key,
    failures: u32,
) -> Result<Outcome, kube::Error> {
    let zones: Api<VSphereDeploymentZone> = Api::all(context.client(key.space.as_deref()));
    let found = zones.get_opt(&key.name).await?;
    let is_there = |zone: &VSphereDeploymentZone| zone.metadata.deletion_timestamp.is_none();
    let Some(zone) = found.filter(is_there) else {
        context.forget(key);
        return Ok(Outcome::Gone);
    };
    let mut work = Work {
        context,
        key,
        zones,
        depends: BTreeSet::new(),
    };
    let outcome = work.go_on(&zone, failures).await?;
    context.settle(key, work.depends);
    Ok(outcome)
}

/// The reconciliation of one zone.
struct Work<'a> {
    context: &'a Context,
    key: &'a Key,
    zones: Api<VSphereDeploymentZone>,
    depends: BTreeSet<Dependency>,
}

impl Work<'_> {
    async fn go_on(
        &mut self,
        zone: &VSphereDeploymentZone,
        failures: u32,
    ) -> Result<Outcome, kube::Error> {
        let named = zone.spec.identity_ref.as_ref();
        if let Some(reference) = named.filter(|reference| is_name(&reference.name)) {
            let on = Dependency::Identity {
                space: self.key.space.clone(),
                name: reference.name.clone(),
            };
            self.context.note(self.key, &mut self.depends, on);
        }
        if let Some(why) = paused::paused(None, zone, "VSphereDeploymentZone") {
            return self.pause(zone, &why).await;
        }
        let anyway = self.context.anyway(self.key);
        let (sight, outcome) = match self.identify(zone).await {
            Ok((Ok(access), domain)) => self.look(zone, access, domain).await,
            Ok((Err(refusal), _)) => {
                self.context.sessions.release(&self.key.text());
                (Sight::Refused(refusal), Outcome::Waits(anyway))
            }
            Err(error) if failures < HICCUPS => return Err(error),
            Err(error) => {
                debug!(key = %self.key, %error, "credential resolution failed");
                let outcome = Outcome::Failed(Class::of(&error));
                (Sight::NotKnown(error.to_string()), outcome)
            }
        };
        self.tell(zone, &sight).await?;
        Ok(outcome)
    }

    async fn pause(&self, zone: &VSphereDeploymentZone, why: &str) -> Result<Outcome, kube::Error> {
        self.context.sessions.release(&self.key.text());
        let mut after = zone.clone();
        let status = after.status.get_or_insert_default();
        let generation = zone.metadata.generation;
        paused::say(
            &mut status.conditions,
            Some(why),
            generation,
            Timestamp::now(),
        );
        commit::status(&self.zones, zone, &after).await?;
        Ok(Outcome::Settled(self.context.anyway(self.key)))
    }

    /// Resolves its credential, and reads its failure domain.
    async fn identify(
        &mut self,
        zone: &VSphereDeploymentZone,
    ) -> Result<(Result<Access, Refusal>, Option<VSphereFailureDomain>), kube::Error> {
        let on = Dependency::FailureDomain {
            space: self.key.space.clone(),
            name: zone.spec.failure_domain.clone(),
        };
        self.context.note(self.key, &mut self.depends, on);
        let client = self.context.client(self.key.space.as_deref());
        let domains: Api<VSphereFailureDomain> = Api::all(client);
        let domain = named(&domains, &zone.spec.failure_domain).await?;
        let access = identify::of_zone(self.context, self.key, zone, &mut self.depends).await?;
        Ok((access, domain))
    }

    async fn look(
        &self,
        zone: &VSphereDeploymentZone,
        access: Access,
        domain: Option<VSphereFailureDomain>,
    ) -> (Sight, Outcome) {
        let asker = self.key.text();
        let sessions = &self.context.sessions;
        let session = match sessions.get(&asker, access.session, &access.credential) {
            Ok(session) => session,
            Err(NotNow::Wait) => return (Sight::Asked, Outcome::Waits(WAITING)),
            Err(NotNow::Failed { error, again_in }) => {
                let refusal = identify::not_opened(&access.credential.source, error);
                return (Sight::Refused(refusal), Outcome::Waits(again_in));
            }
        };
        let anyway = self.context.anyway(self.key);
        let looked = look::look(&session, zone, domain.as_ref()).await;
        if looked.is_ok() {
            session.answered();
        }
        match looked {
            Ok(found) if found == Found::default() => {
                (Sight::Seen(found), Outcome::Settled(anyway))
            }
            // Changes of the inventory are not watched.
            Ok(found) => (Sight::Seen(found), Outcome::Waits(anyway.min(MISSING))),
            Err(error) => {
                match error {
                    vcenter::Error::NotAuthenticated => session.is_dead(),
                    vcenter::Error::Unreachable(_) | vcenter::Error::NotTrusted(_) => {
                        session.did_not_answer();
                    }
                    _ => {}
                }
                let outcome = Outcome::Failed(Class::Transient);
                (Sight::Failed(error), outcome)
            }
        }
    }

    /// Writes the status, and records an event if `Ready` has changed.
    async fn tell(&self, zone: &VSphereDeploymentZone, sight: &Sight) -> Result<(), kube::Error> {
        let after = conclude(zone, sight, Timestamp::now());
        commit::status(&self.zones, zone, &after).await?;
        let ready = |zone: &VSphereDeploymentZone| {
            let status = zone.status.as_ref()?;
            find(&status.conditions, READY).cloned()
        };
        let (before, Some(now)) = (ready(zone), ready(&after)) else {
            return Ok(());
        };
        if before.is_some_and(|before| before.status == now.status) {
            return Ok(());
        }
        let is_ready = now.status == "True";
        let told = Told {
            warning: !is_ready,
            reason: &now.reason,
            note: match is_ready {
                true => "everything that it names is there".to_owned(),
                false => now.message,
            },
        };
        event::tell(self.context, self.key, &after, told).await;
        Ok(())
    }
}

/// How soon the inventory is checked again if something is missing.
const MISSING: Duration = Duration::from_secs(60);
