//! Annotations of a machine's host for moves to another management cluster, and pauses.

use insula_capi::Cluster;
use insula_operator::retry::Outcome;
use kube::ResourceExt;

use super::gate::Family;
use super::{Halt, MachineReconciler, RETRY, Step};
use crate::hosts::consumer::annotated_host;
use crate::hosts::pause::{ClusterState, HostMove, apply, next_step};
use crate::kinds::host::BareMetalHost;
use crate::pool::HostPool;

/// The host could not be paused, or made to continue.
const PAUSE_FAILED: &str = "BareMetalHostPauseAnnotationSetFailed";

impl MachineReconciler<'_> {
    /// Reports that the machine is paused. A host that moves with it is paused too; one that is
    /// reached with an identity stays where it is, and is not touched.
    pub(super) async fn pause(
        &mut self,
        family: &Family,
        why: &str,
    ) -> Result<Outcome, kube::Error> {
        let infrastructure = family.infrastructure.as_ref().ok();
        let inherited = infrastructure.and_then(|it| it.spec.identity_ref.as_ref());
        let own = self.machine.stored.spec.identity_ref.as_ref();
        let annotation = self.annotation();
        let cluster = family.cluster.as_ref();
        let mut outcome = Outcome::Settled(self.of.resync_after());
        if let (None, Some(annotation), Some(cluster)) = (own.or(inherited), annotation, cluster) {
            match self.pause_host(family, cluster, &annotation).await {
                Ok(()) => {}
                // The hosts are not accessible yet, and nothing is known.
                Err(Halt::Stop(waits)) if self.report.host.is_none() => return Ok(waits),
                Err(Halt::Stop(waits)) => outcome = waits,
                Err(Halt::Api(error) | Halt::Hosts(error)) => {
                    let message = format!("BareMetalHost {annotation} is not paused yet");
                    self.no_host(PAUSE_FAILED, message);
                    self.commit().await?;
                    return Err(error);
                }
            }
        }
        self.of.release_session();
        self.report.paused = Some(why.to_owned());
        self.commit().await?;
        Ok(outcome)
    }

    async fn pause_host(
        &mut self,
        family: &Family,
        cluster: &Cluster,
        annotation: &str,
    ) -> Step<()> {
        let access = self.open(family).await?;
        let pool = &access.pool;
        let Ok(name) = annotated_host(annotation, pool.namespace()) else {
            return Ok(());
        };
        let host = pool.hosts().get_opt(name).await.map_err(Halt::Hosts)?;
        if let Some(host) = host {
            self.prepare_for_moves(pool, cluster, host).await?;
        }
        Ok(())
    }

    /// Writes the annotations of a host that moves with its machine, each with a request of its
    /// own: a move may look at the host at any time.
    pub(super) async fn prepare_for_moves(
        &mut self,
        pool: &HostPool,
        cluster: &Cluster,
        mut host: BareMetalHost,
    ) -> Step<BareMetalHost> {
        let host_move = match pool.is_in_cluster() {
            true => HostMove::WithMachine,
            false => HostMove::Never,
        };
        let state = match cluster.spec.paused {
            Some(true) => ClusterState::Paused,
            _ => ClusterState::Running,
        };
        let (consumer, cluster) = (self.consumer(pool), cluster.name_any());
        // Block, pause and allow are at most three steps.
        for _ in 0..4 {
            let Some(step) = next_step(&host, &consumer, &cluster, state, host_move) else {
                return Ok(host);
            };
            let mut after = host.clone();
            apply(&mut after, step);
            host = self.change_host(pool, &host, &after).await?;
        }
        // Another actor changes the annotations too.
        Err(Halt::Stop(Outcome::Waits(RETRY)))
    }
}
