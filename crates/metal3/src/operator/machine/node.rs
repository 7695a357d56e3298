//! The node of a machine in its cluster, and its provider ID.

use std::time::Duration;

use insula_capi::workload::Unavailable;
use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tracing::info;

use super::conclude::State;
use super::gate::Owners;
use super::{Halt, MachineReconciler, Step};
use crate::hosts::addresses::HOSTNAME;
use crate::hosts::node::{
    Bootstrap, IdWriter, NodeMatch, NodeProblem, NodeSearch, find_node, provider_id,
};
use crate::kinds::host::BareMetalHost;
use crate::operator::workload::{self, NotSent};

/// How long a machine waits before it looks for its node again. Nodes are not watched.
const NODE_INTERVAL: Duration = Duration::from_secs(10);

/// The machine has its node.
const READY: &str = "KubernetesNodeReady";
/// The workload cluster cannot be reached yet.
const WAITING_FOR_CLUSTER: &str = "WaitingForWorkloadCluster";
/// The kubeconfig of the workload cluster cannot be used.
const KUBECONFIG_INVALID: &str = "WorkloadKubeconfigInvalid";
/// The node does not exist yet.
const WAITING_FOR_NODE: &str = "WaitingForNode";
/// Several nodes, or a node of something else, could be meant.
const NODE_CONFLICT: &str = "NodeConflict";

impl MachineReconciler<'_> {
    /// Finds the node of the machine, and records the provider ID at both.
    pub(super) async fn find_node(
        &mut self,
        owners: &Owners<'_>,
        host: &BareMetalHost,
    ) -> Step<Outcome> {
        let settled = Outcome::Settled(self.of.resync_after());
        if self.is_done() && owners.machine.node_name().is_some() {
            self.report.node = Some(State::new(true, READY, ""));
            return Ok(settled);
        }
        let nodes = self.nodes(&owners.machine.spec.cluster_name).await?;
        let listed = match nodes.list(&ListParams::default()).await {
            Ok(listed) => listed.items,
            Err(error) => return Err(self.no_cluster(&error)),
        };
        let found = self.match_node(owners, host, &listed);
        if let (Some(name), Some(id)) = (&found.node_to_write, &found.provider_id) {
            let patch = Patch::Strategic(json!({"spec": {"providerID": id}}));
            if let Err(error) = nodes.patch(name, &PatchParams::default(), &patch).await {
                return Err(self.no_cluster(&error));
            }
            info!(key = %self.of.key, node = name, "provider ID of node written");
        }
        if let Some(id) = &found.provider_id {
            if self.machine.stored.spec.provider_id.as_ref() != Some(id) {
                let patch = json!({"spec": {"providerID": id}});
                self.machine.patch(patch).await?;
            }
            self.report.is_provisioned = true;
        }
        self.report.node = Some(state(&found));
        Ok(match &found.problem {
            None => settled,
            Some(_) => Outcome::Waits(NODE_INTERVAL),
        })
    }

    /// Returns whether the provider ID is recorded.
    fn is_done(&self) -> bool {
        let status = self.machine.stored.status.as_ref();
        let initialization = status.and_then(|status| status.initialization.as_ref());
        let is_provisioned = initialization.is_some_and(|it| it.provisioned == Some(true));
        is_provisioned && self.machine.stored.spec.provider_id.is_some()
    }

    /// Returns the nodes of the workload cluster.
    async fn nodes(&mut self, cluster: &str) -> Step<Api<Node>> {
        let (reason, error) = match workload::client(self.of, cluster).await {
            Ok(client) => return Ok(Api::all(client)),
            Err(Unavailable::Failed(error)) => return Err(Halt::Api(error)),
            Err(error @ Unavailable::NoSecret(_)) => (WAITING_FOR_CLUSTER, error),
            Err(error @ Unavailable::Invalid { .. }) => (KUBECONFIG_INVALID, error),
        };
        self.report.node = Some(State::new(false, reason, error.to_string()));
        Err(self.wait_for_events())
    }

    /// Reports that the workload cluster does not answer. What it answers is not repeated,
    /// because it was sent a credential.
    fn no_cluster(&mut self, error: &kube::Error) -> Halt {
        let message = match error {
            _ if NotSent::of(error) == Some(NotSent::Busy) => NotSent::Busy.to_string(),
            kube::Error::Api(status) => format!(
                "the API server of the workload cluster answers HTTP {}",
                status.code
            ),
            _ => "the API server of the workload cluster cannot be reached yet".to_owned(),
        };
        self.report.node = Some(State::new(false, WAITING_FOR_CLUSTER, message));
        Halt::Stop(Outcome::Waits(NODE_INTERVAL))
    }

    fn match_node(&self, owners: &Owners<'_>, host: &BareMetalHost, nodes: &[Node]) -> NodeMatch {
        let namespace = self.of.key.namespace_or_empty();
        let expected = provider_id(namespace, &host.name_any(), &self.of.key.name);
        let status = self.machine.object.status.as_ref();
        let addresses = status.map(|status| status.addresses.iter());
        let hostnames = addresses.into_iter().flatten();
        let hostnames: Vec<_> = hostnames
            .filter(|one| one.kind == HOSTNAME)
            .map(|one| one.address.as_str())
            .collect();
        let has_cloud = owners.infrastructure.spec.cloud_provider_enabled == Some(true);
        let config = owners.machine.spec.bootstrap.config_ref.as_ref();
        let search = NodeSearch {
            current: self.machine.stored.spec.provider_id.as_deref(),
            expected: &expected,
            host_uid: host.metadata.uid.as_deref().unwrap_or_default(),
            hostnames: &hostnames,
            writer: match has_cloud {
                true => IdWriter::CloudProvider,
                false => IdWriter::Operator,
            },
            bootstrap: match config {
                Some(_) => Bootstrap::Provider,
                None => Bootstrap::Secret,
            },
        };
        find_node(&search, nodes)
    }
}

/// Returns the state of a machine's node.
fn state(found: &NodeMatch) -> State {
    match &found.problem {
        None => State::new(true, READY, ""),
        Some(problem) => State::new(false, reason(problem), problem.to_string()),
    }
}

fn reason(problem: &NodeProblem) -> &'static str {
    match problem.is_transient() {
        true => WAITING_FOR_NODE,
        false => NODE_CONFLICT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_condition_tells_waiting_from_conflict() {
        let of = |problem| NodeMatch {
            problem,
            ..NodeMatch::default()
        };
        let several = NodeProblem::Several {
            what: "one provider ID",
            nodes: vec!["a".to_owned(), "b".to_owned()],
        };
        for (problem, expected) in [
            (None, State::new(true, "KubernetesNodeReady", "")),
            (
                Some(NodeProblem::NoneWithHostname),
                State::new(
                    false,
                    "WaitingForNode",
                    "no node has the name of the host yet",
                ),
            ),
            (
                Some(several),
                State::new(
                    false,
                    "NodeConflict",
                    "several nodes have one provider ID: a, b",
                ),
            ),
        ] {
            assert_eq!(state(&of(problem)), expected);
        }
    }
}
