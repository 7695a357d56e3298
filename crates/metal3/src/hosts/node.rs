//! The node of a machine in its cluster.

use k8s_openapi::api::core::v1::Node;

use crate::names::NODE_UUID;

/// The scheme of provider IDs.
const SCHEME: &str = "metal3://";

/// The label of nodes with the name of their host.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// Returns the provider ID of a machine. The namespace is that of the machine, as in its metadata;
/// that of the host may be in another cluster.
pub fn provider_id(machine_namespace: &str, host: &str, machine: &str) -> String {
    let path = provider_path(machine_namespace, host, machine);
    format!("{SCHEME}{path}")
}

/// Returns the provider ID without its scheme, as metadata has it.
pub fn provider_path(machine_namespace: &str, host: &str, machine: &str) -> String {
    format!("{machine_namespace}/{host}/{machine}")
}

/// What identifies the node of a machine.
#[derive(Clone, Debug)]
pub struct NodeSearch<'a> {
    /// The provider ID that the machine has already.
    pub current: Option<&'a str>,
    /// The provider ID that it should have.
    pub expected: &'a str,
    /// The UID of the host.
    pub host_uid: &'a str,
    /// The names of the host.
    pub hostnames: &'a [&'a str],
    /// What writes the provider ID of nodes.
    pub writer: IdWriter,
    /// What boots the machine.
    pub bootstrap: Bootstrap,
}

impl NodeSearch<'_> {
    /// Returns the provider ID of a machine without a node. One in the former form is kept,
    /// because the node has it for good.
    fn wanted(&self) -> &str {
        let former = self.current.filter(|id| former_path(id).is_some());
        former.unwrap_or(self.expected)
    }

    /// Returns whether a provider ID is that of the machine, in one of its forms. After a move,
    /// the host has another UID than the one in its former ID.
    fn accepts(&self, id: &str) -> bool {
        let is_former = former_path(id) == Some(self.host_uid);
        is_former || id == self.expected || id == self.wanted()
    }
}

/// Returns the path of a provider ID in the form that Metal3's own provider wrote up to its version
/// 1.13: the UID of the host.
fn former_path(id: &str) -> Option<&str> {
    let path = id.strip_prefix(SCHEME)?;
    (!path.is_empty() && !path.contains('/')).then_some(path)
}

/// What writes the provider ID of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdWriter {
    /// A cloud provider in the cluster.
    CloudProvider,
    /// This operator.
    Operator,
}

/// What boots a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// A bootstrap provider, whose data gives the node a label with the UID of its host.
    Provider,
    /// A Secret of the user, who may give the node no such label.
    Secret,
}

/// What to do about the node of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMatch {
    /// The provider ID of the machine, which is provisioned with it.
    pub provider_id: Option<String>,
    /// The name of the node that has to get this provider ID.
    pub node_to_write: Option<String>,
    /// Why the node is not known yet, or cannot be used.
    pub problem: Option<NodeProblem>,
}

/// Why the node of a machine is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeProblem {
    /// No node has the provider ID.
    #[error("no node has the provider ID {0} yet")]
    NoneWithId(String),
    /// No node has the label.
    #[error("no node has the label {NODE_UUID}={0} yet")]
    NoneWithLabel(String),
    /// No node has one of the names, or the names are not known.
    #[error("no node has the name of the host yet")]
    NoneWithHostname,
    /// Several nodes could be meant.
    #[error("several nodes have {what}: {}", .nodes.join(", "))]
    Several {
        /// What they have in common.
        what: &'static str,
        /// Their names.
        nodes: Vec<String>,
    },
    /// The node has another provider ID.
    #[error("node {node} has the provider ID {found}, and {expected} is expected")]
    OtherId {
        /// The node.
        node: String,
        /// What it has.
        found: String,
        /// What it should have.
        expected: String,
    },
}

impl NodeProblem {
    /// Returns whether the problem can end without a change by a user.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NoneWithId(_) | Self::NoneWithLabel(_) | Self::NoneWithHostname => true,
            Self::Several { .. } | Self::OtherId { .. } => false,
        }
    }
}

/// Finds the node of a machine among all nodes of its cluster.
///
/// Nodes count as equal only with the whole provider ID: two groups of hosts can have hosts of one
/// name.
pub fn find_node(search: &NodeSearch<'_>, nodes: &[Node]) -> NodeMatch {
    let with_id = with(nodes, |node| id(node).is_some_and(|id| search.accepts(id)));
    if let [_, _, ..] = with_id.as_slice() {
        return NodeMatch::of(several("one provider ID", &with_id));
    }
    let found = with_id.first().and_then(|node| id(node));
    if let Some(known) = found.filter(|found| search.current == Some(*found)) {
        return NodeMatch::accepted(known);
    }
    if search.writer == IdWriter::CloudProvider {
        return match found {
            None => NodeMatch::of(NodeProblem::NoneWithId(search.wanted().to_owned())),
            Some(found) => NodeMatch::accepted(found),
        };
    }
    let labelled = with(nodes, |node| {
        label(node, NODE_UUID) == Some(search.host_uid)
    });
    match (labelled.as_slice(), search.bootstrap) {
        ([], Bootstrap::Provider) => {
            NodeMatch::of(NodeProblem::NoneWithLabel(search.host_uid.to_owned()))
        }
        // The machine is provisioned without a node. That may come later, or never.
        ([], Bootstrap::Secret) => by_hostname(search, nodes),
        ([node], _) => match written(search, node) {
            Err(problem) => NodeMatch::of(problem),
            Ok(found) => found,
        },
        _ => NodeMatch::of(several("the label of one host", &labelled)),
    }
}

fn by_hostname(search: &NodeSearch<'_>, nodes: &[Node]) -> NodeMatch {
    let named = with(nodes, |node| {
        label(node, HOSTNAME_LABEL).is_some_and(|name| search.hostnames.contains(&name))
    });
    let found = match named.as_slice() {
        [] => Err(NodeProblem::NoneWithHostname),
        [node] => written(search, node),
        _ => Err(several("the name of one host", &named)),
    };
    found.unwrap_or_else(|problem| NodeMatch {
        problem: Some(problem),
        ..NodeMatch::accepted(search.wanted())
    })
}

impl NodeMatch {
    fn accepted(id: &str) -> Self {
        Self {
            provider_id: Some(id.to_owned()),
            ..Self::default()
        }
    }

    fn of(problem: NodeProblem) -> Self {
        Self {
            problem: Some(problem),
            ..Self::default()
        }
    }
}

/// Returns the match of the node of a machine, which has to get a provider ID if it has none.
fn written(search: &NodeSearch<'_>, node: &Node) -> Result<NodeMatch, NodeProblem> {
    match id(node) {
        None => Ok(NodeMatch {
            node_to_write: Some(name(node)),
            ..NodeMatch::accepted(search.wanted())
        }),
        Some(found) if search.accepts(found) => Ok(NodeMatch::accepted(found)),
        Some(found) => Err(NodeProblem::OtherId {
            node: name(node),
            found: found.to_owned(),
            expected: search.wanted().to_owned(),
        }),
    }
}

fn with(nodes: &[Node], condition: impl Fn(&Node) -> bool) -> Vec<&Node> {
    nodes.iter().filter(|node| condition(node)).collect()
}

fn several(what: &'static str, nodes: &[&Node]) -> NodeProblem {
    let nodes = nodes.iter().map(|node| name(node)).collect();
    NodeProblem::Several { what, nodes }
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

fn id(node: &Node) -> Option<&str> {
    let id = node.spec.as_ref()?.provider_id.as_deref()?;
    (!id.is_empty()).then_some(id)
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let labels = node.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}
