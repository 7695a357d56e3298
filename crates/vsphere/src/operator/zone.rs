//! Reconciles zones: checks that the inventory has what they name, with the credential of the
//! identity that they reference or with the operator's static credentials.

mod check;
mod conclude;

use std::time::Duration;

use insula_capi::paused;
use insula_identity::session::HeldSession;
use insula_operator::commit;
use insula_operator::condition::{READY, find_in};
use insula_operator::event::NewEvent;
use insula_operator::provider::Access;
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::Api;

use self::conclude::{Missing, Observation, conclude};
use super::context::Reconciliation;
use super::credentials;
use crate::kinds::{VSphereDeploymentZone, VSphereFailureDomain};
use crate::vcenter::{self, VCenters};

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
            return paused::pause(self.of, &self.zones, zone, &why).await;
        }
        let (observation, outcome) = match self.access(zone).await {
            Ok((Access::Open(session, _), domain)) => self.check(zone, &session, domain).await,
            Ok((Access::Closed(why, outcome), _)) => (Observation::Closed(why), outcome),
            Err(error) => {
                let (why, outcome) = self.of.unknown_access(error)?;
                (Observation::Closed(why), outcome)
            }
        };
        self.write_status(zone, &observation).await?;
        Ok(outcome)
    }

    /// Returns the access to its vCenter, and its failure domain.
    async fn access(
        &self,
        zone: &VSphereDeploymentZone,
    ) -> Result<(Access<VCenters>, Option<VSphereFailureDomain>), kube::Error> {
        let name = &zone.spec.failure_domain;
        let domain = self.of.read_cluster_scoped(name).await?;
        let question = credentials::zone_question(&self.of.context.bounds, zone);
        Ok((self.of.access(question).await?, domain))
    }

    async fn check(
        &self,
        zone: &VSphereDeploymentZone,
        session: &HeldSession<VCenters>,
        domain: Option<VSphereFailureDomain>,
    ) -> (Observation, Outcome) {
        let resync = self.of.resync_after();
        let checked = check::check(session, zone, domain.as_ref()).await;
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
        let Some(now) = find_in(&after, READY) else {
            return Ok(());
        };
        if find_in(zone, READY).is_some_and(|before| before.status == now.status) {
            return Ok(());
        }
        let is_ready = now.status == "True";
        let note = NewEvent {
            warning: !is_ready,
            reason: &now.reason,
            note: match is_ready {
                true => "everything that it names exists".to_owned(),
                false => now.message.clone(),
            },
        };
        self.of.record_event(&after, note).await;
        Ok(())
    }
}

/// How soon the inventory is checked again if something is missing.
const MISSING_RECHECK_INTERVAL: Duration = Duration::from_secs(60);
