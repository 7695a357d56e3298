//! The node of the machine in the workload cluster.

use insula_capi::workload::Unavailable;
use insula_operator::commit;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tracing::{debug, info};

use super::RemediationReconciler;
use super::backup::Backup;
use super::decide::{NodeFacts, NodeState};
use super::drain;
use super::family::Family;
use crate::operator::list;
use crate::operator::workload::{self, NotSent};

/// The node of a machine, and how it is reached.
pub(super) struct NodeAccess {
    client: Client,
    node: Node,
}

/// What of a node has to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// The node.
    Node,
    /// The node, and what runs on it.
    Workload,
}

impl RemediationReconciler<'_> {
    /// Returns what is known about the node of the machine, and the node if it exists. A workload
    /// cluster that does not answer is no obstacle: its only control plane may be the machine.
    pub(super) async fn observe_node(
        &self,
        family: &Family,
        detail: Detail,
    ) -> Result<(NodeState, Option<NodeAccess>), kube::Error> {
        let machine = family.machine.as_ref();
        let Some((machine, name)) = machine.and_then(|one| Some((one, one.node_name()?))) else {
            return Ok((NodeState::None, None));
        };
        let client = match workload::client(self.of, &machine.spec.cluster_name).await {
            Ok(client) => client,
            Err(Unavailable::Failed(error)) if is_of_own_server(&error) => return Err(error),
            Err(problem) => {
                debug!(key = %self.of.key, %problem, "workload cluster not available");
                return Ok((NodeState::Unknown, None));
            }
        };
        let nodes: Api<Node> = Api::all(client.clone());
        let node = match insula_operator::read::get_named(&nodes, name).await {
            Ok(Some(node)) => node,
            Ok(None) => return Ok((NodeState::Missing, None)),
            // Without rights to nodes, the host is restarted all the same.
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return Ok((NodeState::None, None));
            }
            // Other clusters of the tenant do not answer; this one may.
            Err(error) if NotSent::of(&error) == Some(NotSent::Busy) => return Err(error),
            Err(error) => {
                debug!(key = %self.of.key, %error, "node not read");
                return Ok((NodeState::Unknown, None));
            }
        };
        if !is_of(&node, family) {
            return Ok((NodeState::None, None));
        }
        let access = NodeAccess { client, node };
        let state = self.facts(&access, detail).await;
        Ok((state, Some(access)))
    }

    async fn facts(&self, access: &NodeAccess, detail: Detail) -> NodeState {
        let node = &access.node;
        let backup = Backup::of(&self.remediation.stored);
        let is_tainted = drain::is_tainted(node);
        let mut facts = NodeFacts {
            can_be_tainted: false,
            is_tainted,
            is_drained: false,
            is_backed_up: backup.with(node) == backup,
            is_restored: backup.missing(node).is_none(),
            is_deleted: node.metadata.deletion_timestamp.is_some(),
        };
        if detail == Detail::Workload {
            let Ok(version) = access.client.apiserver_version().await else {
                return NodeState::Unknown;
            };
            facts.can_be_tainted = drain::is_supported(&version);
            facts.is_drained = is_tainted && self.is_drained(access).await;
        }
        NodeState::Present(facts)
    }

    async fn is_drained(&self, access: &NodeAccess) -> bool {
        match access.is_drained().await {
            Ok(is_drained) => is_drained,
            Err(error) => {
                debug!(key = %self.of.key, %error, "workload of node not read");
                false
            }
        }
    }
}

impl NodeAccess {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Has the pods of the node evicted.
    pub(super) async fn taint(&self) -> Result<(), kube::Error> {
        let taints = drain::tainted(&self.node, Timestamp::now());
        let spec = json!({"spec": {"taints": taints}});
        commit::patch(&self.nodes(), &self.node, spec).await?;
        info!(node = self.node.name_any(), "node tainted");
        Ok(())
    }

    /// Ends that.
    pub(super) async fn remove_taint(&self) -> Result<(), kube::Error> {
        let taints = drain::without_taint(&self.node);
        let spec = json!({"spec": {"taints": taints}});
        commit::patch(&self.nodes(), &self.node, spec).await?;
        info!(node = self.node.name_any(), "taint of node removed");
        Ok(())
    }

    /// Returns a record with all labels and annotations of the node.
    pub(super) fn back_up(&self, backup: &Backup) -> Backup {
        backup.with(&self.node)
    }

    /// Deletes the node.
    pub(super) async fn delete(&self) -> Result<(), kube::Error> {
        commit::delete(&self.nodes(), &self.node).await?;
        info!(node = self.node.name_any(), "node deleted");
        Ok(())
    }

    /// Restores labels and annotations of the node.
    pub(super) async fn restore(&self, backup: &Backup) -> Result<(), kube::Error> {
        if let Some(fields) = backup.missing(&self.node) {
            commit::metadata(&self.nodes(), &self.node, fields).await?;
            info!(node = self.node.name_any(), "node restored");
        }
        Ok(())
    }

    /// Returns whether nothing is left on the node that the taint evicts.
    async fn is_drained(&self) -> Result<bool, kube::Error> {
        let name = self.node.name_any();
        let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let pods: Api<Pod> = Api::all(self.client.clone());
        if any(&pods, on_node, drain::is_to_evict).await? {
            return Ok(false);
        }
        let attachments: Api<VolumeAttachment> = Api::all(self.client.clone());
        let is_attached = |one: &VolumeAttachment| drain::is_attached_to(one, &name);
        Ok(!any(&attachments, ListParams::default(), is_attached).await?)
    }
}

/// Returns whether an object satisfies a predicate. A kind that is not served has no objects.
async fn any<K>(
    api: &Api<K>,
    parameters: ListParams,
    is_so: impl Fn(&K) -> bool,
) -> Result<bool, kube::Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match list::find(api, parameters, is_so).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        found => Ok(found?.is_some()),
    }
}

/// Returns whether a node is that of the machine, and not another one of the same name.
fn is_of(node: &Node, family: &Family) -> bool {
    let spec = node.spec.as_ref();
    let found = spec.and_then(|spec| spec.provider_id.as_deref());
    let machine = family.metal3_machine.as_ref();
    let expected = machine.and_then(|machine| machine.spec.provider_id.as_deref());
    match (found, expected) {
        (Some(found), Some(expected)) => found.is_empty() || found == expected,
        _ => true,
    }
}

/// Returns whether a request to the operator's own server failed, which will succeed later. A
/// kubeconfig that no client can be made of, or that may not be read, is no reason to keep the host
/// off.
fn is_of_own_server(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}
