//! Reconciles zones: checks that the inventory has what they name, with the credential of the
//! identity that they reference or with the operator's static credentials.

mod check;
mod conclude;

use std::time::Duration;

use insula_capi::paused;
use insula_identity::credential::Credential;
use insula_identity::decide::Refusal;
use insula_identity::session::Unavailable;
use insula_operator::commit;
use insula_operator::condition::{READY, find};
use insula_operator::event::NewEvent;
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use tracing::debug;

use self::conclude::{Missing, Observation, conclude};
use super::context::Reconciliation;
use super::credentials;
use crate::kinds::{VSphereDeploymentZone, VSphereFailureDomain};
use crate::vcenter;

/// The longest wait for a change that is watched.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How many failed requests to the API server are retried before a condition reports them.
const MAX_UNREPORTED_FAILURES: u32 = 2;

/// Reconciles a zone.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let zones = of.cluster_api::<VSphereDeploymentZone>();
    let found = zones.get_opt(&of.key.name).await?;
    let is_there = |zone: &VSphereDeploymentZone| zone.metadata.deletion_timestamp.is_none();
    match found.filter(is_there) {
        Some(zone) => ZoneReconciler { of, zones }.run(&zone).await,
        None => Ok(Outcome::Gone),
    }
}

/// The reconciliation of one zone.
struct ZoneReconciler<'a> {
    of: &'a Reconciliation<'a>,
    zones: Api<VSphereDeploymentZone>,
}

impl ZoneReconciler<'_> {
    async fn run(&self, zone: &VSphereDeploymentZone) -> Result<Outcome, kube::Error> {
        if let Some(reference) = &zone.spec.identity_ref {
            self.of.depend_on_identity(&reference.name);
        }
        if let Some(why) = paused::paused(None, zone, "VSphereDeploymentZone") {
            return self.pause(zone, &why).await;
        }
        let (observation, outcome) = match self.identify(zone).await {
            Ok((Ok(credential), domain)) => self.check(zone, &credential, domain).await,
            Ok((Err(refusal), _)) => {
                self.of.release_session();
                let outcome = Outcome::Waits(self.of.resync_after());
                (Observation::Refused(refusal), outcome)
            }
            Err(error) if self.of.failures < MAX_UNREPORTED_FAILURES => return Err(error),
            Err(error) => {
                debug!(key = %self.of.key, %error, "credential resolution failed");
                let outcome = Outcome::Failed(Class::of(&error));
                (Observation::Unknown(error.to_string()), outcome)
            }
        };
        self.write_status(zone, &observation).await?;
        Ok(outcome)
    }

    async fn pause(&self, zone: &VSphereDeploymentZone, why: &str) -> Result<Outcome, kube::Error> {
        self.of.release_session();
        let mut after = zone.clone();
        let status = after.status.get_or_insert_default();
        let (generation, now) = (zone.metadata.generation, Timestamp::now());
        paused::set_condition(&mut status.conditions, Some(why), generation, now);
        commit::status(&self.zones, zone, &after).await?;
        Ok(Outcome::Settled(self.of.resync_after()))
    }

    /// Resolves its credential, and reads its failure domain.
    async fn identify(
        &self,
        zone: &VSphereDeploymentZone,
    ) -> Result<(Result<Credential, Refusal>, Option<VSphereFailureDomain>), kube::Error> {
        let name = &zone.spec.failure_domain;
        let domain = self.of.read_cluster_scoped(name).await?;
        let credential = match credentials::zone_question(&self.of.context.bounds, zone) {
            Ok(question) => self.of.resolve(&question).await?,
            Err(refusal) => Err(refusal),
        };
        Ok((credential, domain))
    }

    async fn check(
        &self,
        zone: &VSphereDeploymentZone,
        credential: &Credential,
        domain: Option<VSphereFailureDomain>,
    ) -> (Observation, Outcome) {
        let session = match self.of.session(credential) {
            Ok(session) => session,
            Err(Unavailable::Wait) => return (Observation::Checking, Outcome::Waits(MAX_WAIT)),
            Err(Unavailable::Failed { error, retry_after }) => {
                let refusal = credentials::login_refusal(&credential.source, error);
                return (Observation::Refused(refusal), Outcome::Waits(retry_after));
            }
        };
        let resync = self.of.resync_after();
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
        self.of.record_event(&after, note).await;
        Ok(())
    }
}

/// How soon the inventory is checked again if something is missing.
const MISSING_RECHECK_INTERVAL: Duration = Duration::from_secs(60);
