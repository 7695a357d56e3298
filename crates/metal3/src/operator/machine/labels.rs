//! Labels of the host on the node of a machine.

use std::time::Duration;

use insula_capi::workload::Unavailable;
use insula_operator::commit;
use insula_operator::event::NewEvent;
use insula_operator::read::get_named;
use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use tracing::info;

use super::gate::Owners;
use super::{Halt, MachineReconciler, Step};
use crate::hosts::labels::{SyncedPrefixes, changes};
use crate::kinds::host::BareMetalHost;
use crate::names::{HOST_PAUSED, LABEL_SYNC_PREFIXES};
use crate::operator::workload::{self, NotSent};

/// How long until the labels of a node are looked at again: nodes are not watched. Changes of the
/// host trigger the machine.
const INTERVAL: Duration = Duration::from_secs(60);
/// How often a write is tried that conflicts with another one: kubelets write their nodes often.
const MAX_ATTEMPTS: usize = 3;
/// The labels cannot be written.
const FAILED: &str = "LabelSyncFailed";

impl MachineReconciler<'_> {
    /// Copies labels of the host to the node, if the cluster says so. A node that cannot be written
    /// is no obstacle for the machine.
    pub(super) async fn sync_labels(
        &self,
        owners: &Owners<'_>,
        host: &BareMetalHost,
        done: Outcome,
    ) -> Step<Outcome> {
        let listed = owners.infrastructure.annotations().get(LABEL_SYNC_PREFIXES);
        let Some((listed, name)) = listed.zip(owners.machine.node_name()) else {
            return Ok(done);
        };
        let done = match done {
            Outcome::Settled(interval) => Outcome::Settled(interval.min(INTERVAL)),
            done => done,
        };
        if host.annotations().contains_key(HOST_PAUSED) {
            return Ok(done);
        }
        let client = match workload::client(self.of, &owners.machine.spec.cluster_name).await {
            Ok(client) => client,
            Err(Unavailable::Failed(error)) => return Err(Halt::Api(error)),
            Err(_) => return Ok(done),
        };
        let (prefixes, _) = SyncedPrefixes::parse(listed);
        let nodes = Api::all(client);
        let written = self.write_labels(&nodes, name, &prefixes, host);
        self.report_labels(written.await.err()).await;
        Ok(done)
    }

    async fn write_labels(
        &self,
        nodes: &Api<Node>,
        name: &str,
        prefixes: &SyncedPrefixes,
        host: &BareMetalHost,
    ) -> Result<(), kube::Error> {
        for attempt in 1.. {
            let node = get_named(nodes, name).await?;
            let Some(node) = node.filter(|node| self.is_own_node(node)) else {
                return Ok(());
            };
            let Some(fields) = changes(prefixes, host.labels(), &node) else {
                return Ok(());
            };
            match commit::metadata(nodes, &node, fields).await {
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < MAX_ATTEMPTS => {}
                written => {
                    written?;
                    info!(key = %self.of.key, node = name, "labels of node written");
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns whether a node is that of the machine, and not another one of the same name.
    fn is_own_node(&self, node: &Node) -> bool {
        let found = node.spec.as_ref();
        let found = found.and_then(|spec| spec.provider_id.as_deref());
        found.is_some() && found == self.machine.stored.spec.provider_id.as_deref()
    }

    /// Records an event about labels that cannot be written, once. What the cluster answers is not
    /// repeated, because it was sent a credential.
    async fn report_labels(&self, error: Option<kube::Error>) {
        let (reported, key) = (&self.of.context.provider.reported, self.of.key.text());
        let Some(error) = error else {
            reported.forget(&key);
            return;
        };
        // The request before that was answered, or its failure was reported.
        if NotSent::of(&error).is_some() || !reported.is_new(&key, FAILED) {
            return;
        }
        let note = match &error {
            kube::Error::Api(status) => format!(
                "the API server of the workload cluster answers HTTP {} to labels of the node",
                status.code
            ),
            _ => "the API server of the workload cluster cannot be reached".to_owned(),
        };
        info!(key = %self.of.key, "labels of node not written");
        let event = NewEvent {
            warning: true,
            reason: FAILED,
            note,
        };
        self.of.record_event(&self.machine.stored, event).await;
    }
}
