//! Reconciles zones: checks that the inventory has what they name, with the credential of the
//! identity that they reference or with the operator's static credentials.

mod check;
mod conclude;

use std::collections::BTreeSet;
use std::time::Duration;

use insula_identity::decide::Refusal;
use insula_identity::session::Unavailable;
use insula_operator::event::NewEvent;
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use tracing::debug;

use self::conclude::{Missing, Observation, conclude};
use super::condition::{READY, find};
use super::context::{Context, Dependency};
use super::key::Key;
use super::read::get_named;
use super::resolve::{self, Access};
use super::{commit, event, paused};
use crate::kinds::{VSphereDeploymentZone, VSphereFailureDomain};
use crate::names::is_valid_name;
use crate::vcenter;

/// The longest wait for a change that is watched.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How many failed requests to the API server are retried before a condition reports them.
const MAX_UNREPORTED_FAILURES: u32 = 2;

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
    let mut reconciliation = Reconciliation {
        context,
        key,
        zones,
        depends: BTreeSet::new(),
    };
    let outcome = reconciliation.run(&zone, failures).await?;
    context.set_dependencies(key, reconciliation.depends);
    Ok(outcome)
}

/// The reconciliation of one zone.
struct Reconciliation<'a> {
    context: &'a Context,
    key: &'a Key,
    zones: Api<VSphereDeploymentZone>,
    depends: BTreeSet<Dependency>,
}

impl Reconciliation<'_> {
    async fn run(
        &mut self,
        zone: &VSphereDeploymentZone,
        failures: u32,
    ) -> Result<Outcome, kube::Error> {
        let named = zone.spec.identity_ref.as_ref();
        if let Some(reference) = named.filter(|reference| is_valid_name(&reference.name)) {
            let on = Dependency::Identity {
                space: self.key.space.clone(),
                name: reference.name.clone(),
            };
            self.context.depend_on(self.key, &mut self.depends, on);
        }
        if let Some(why) = paused::paused(None, zone, "VSphereDeploymentZone") {
            return self.pause(zone, &why).await;
        }
        let resync = self.context.resync_after(self.key);
        let (observation, outcome) = match self.identify(zone).await {
            Ok((Ok(access), domain)) => self.check(zone, access, domain).await,
            Ok((Err(refusal), _)) => {
                self.context.sessions.release(&self.key.text());
                (Observation::Refused(refusal), Outcome::Waits(resync))
            }
            Err(error) if failures < MAX_UNREPORTED_FAILURES => return Err(error),
            Err(error) => {
                debug!(key = %self.key, %error, "credential resolution failed");
                let outcome = Outcome::Failed(Class::of(&error));
                (Observation::Unknown(error.to_string()), outcome)
            }
        };
        self.write_status(zone, &observation).await?;
        Ok(outcome)
    }

    async fn pause(&self, zone: &VSphereDeploymentZone, why: &str) -> Result<Outcome, kube::Error> {
        self.context.sessions.release(&self.key.text());
        let mut after = zone.clone();
        let status = after.status.get_or_insert_default();
        let generation = zone.metadata.generation;
        paused::set_condition(
            &mut status.conditions,
            Some(why),
            generation,
            Timestamp::now(),
        );
        commit::status(&self.zones, zone, &after).await?;
        Ok(Outcome::Settled(self.context.resync_after(self.key)))
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
        self.context.depend_on(self.key, &mut self.depends, on);
        let client = self.context.client(self.key.space.as_deref());
        let domains: Api<VSphereFailureDomain> = Api::all(client);
        let domain = get_named(&domains, &zone.spec.failure_domain).await?;
        let access = resolve::for_zone(self.context, self.key, zone, &mut self.depends).await?;
        Ok((access, domain))
    }

    async fn check(
        &self,
        zone: &VSphereDeploymentZone,
        access: Access,
        domain: Option<VSphereFailureDomain>,
    ) -> (Observation, Outcome) {
        let asker = self.key.text();
        let sessions = &self.context.sessions;
        let session = match sessions.get(&asker, access.session, &access.credential) {
            Ok(session) => session,
            Err(Unavailable::Wait) => return (Observation::Checking, Outcome::Waits(MAX_WAIT)),
            Err(Unavailable::Failed { error, retry_after }) => {
                let refusal = resolve::login_refusal(&access.credential.source, error);
                return (Observation::Refused(refusal), Outcome::Waits(retry_after));
            }
        };
        let resync = self.context.resync_after(self.key);
        let checked = check::check(&session, zone, domain.as_ref()).await;
        if checked.is_ok() {
            session.mark_responsive();
        }
        match checked {
            Ok(found) if found == Missing::default() => {
                (Observation::Checked(found), Outcome::Settled(resync))
            }
            // Changes of the inventory are not watched.
            Ok(found) => (
                Observation::Checked(found),
                Outcome::Waits(resync.min(MISSING_RECHECK_INTERVAL)),
            ),
            Err(error) => {
                match error {
                    vcenter::Error::NotAuthenticated => session.mark_dead(),
                    vcenter::Error::Unreachable(_) | vcenter::Error::NotTrusted(_) => {
                        session.mark_unresponsive();
                    }
                    _ => {}
                }
                let outcome = Outcome::Failed(Class::Transient);
                (Observation::Failed(error), outcome)
            }
        }
    }

    /// Writes the status, and records an event if `Ready` has changed.
    async fn write_status(
        &self,
        zone: &VSphereDeploymentZone,
        observation: &Observation,
    ) -> Result<(), kube::Error> {
        let after = conclude(zone, observation, Timestamp::now());
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
        let note = NewEvent {
            warning: !is_ready,
            reason: &now.reason,
            note: match is_ready {
                true => "everything that it names exists".to_owned(),
                false => now.message,
            },
        };
        event::record(self.context, self.key, &after, note).await;
        Ok(())
    }
}

/// How soon the inventory is checked again if something is missing.
const MISSING_RECHECK_INTERVAL: Duration = Duration::from_secs(60);
