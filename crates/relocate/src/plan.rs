//! Decides, without I/O, which objects are moved or copied, and in which order.
//!
//! The selected clusters move with all their dependents. Identities with their Secrets are also
//! used by other clusters, and so are classes if only one cluster is moved: these are copied
//! unless the target has them, and stay at the source.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use insula_capi::relocation::{Movable, Needed, Sharing};
use kube::api::DynamicObject;

use crate::error::Error;
use crate::names::{ADDONS, CAPI};

/// The properties of an object that decide where it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The group of its kind.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it is in one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The UIDs of its owners.
    pub owners: Vec<String>,
    /// Whether it is moved on its own account, and not as a dependent.
    pub root: bool,
    /// The identity that it references.
    pub identity: Option<IdentityRef>,
    /// The class that it references.
    pub class: Option<String>,
    /// The Secret that it references, if it is an identity.
    pub secret: Option<String>,
    /// The Secrets of its namespace that it uses without owning them.
    pub used_secrets: Vec<String>,
    /// The objects of its namespace that have to move with it.
    pub needs: Vec<Needed>,
    /// Whether it stays at the source with its dependents, whatever else is moved.
    pub stays: bool,
    /// Whether it is copied after all clusters: it may have to be paused for the move, which is
    /// undone only if no cluster was copied.
    pub follows_clusters: bool,
}

/// A reference to an identity: a kind of the same group, without a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdentityRef {
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// Which clusters are to be moved.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The only cluster to move, if not all.
    pub cluster: Option<&'a str>,
}

/// Whether an object stays at the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disposition {
    /// It is created at the target and deleted at the source.
    Move,
    /// It is created at the target unless it exists there, and stays at the source.
    Copy,
}

/// What is done with one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The index of the object.
    pub at: usize,
    /// Whether it stays at the source.
    pub disposition: Disposition,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// These objects own each other.
    Cycle(Vec<String>),
    /// Objects that also belong to a cluster that is not moved, each with that cluster.
    Shared(Vec<(String, String)>),
    /// Objects that an object needs that is not moved, each with that object.
    Needed(Vec<(String, String)>),
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Cycle(nodes) => Self::OwnerCycle(nodes),
            PlanError::Shared(pairs) => not_movable(&pairs, "also belongs to"),
            PlanError::Needed(pairs) => not_movable(&pairs, "is also used by"),
        }
    }
}

fn not_movable(pairs: &[(String, String)], relation: &str) -> Error {
    let pairs = pairs.iter();
    let reasons = pairs.map(|(what, by)| format!("{what} {relation} {by}, which is not moved"));
    Error::NotMovable(reasons.collect())
}

impl Node {
    /// Returns whether it is a Cluster.
    pub fn is_cluster(&self) -> bool {
        self.group == CAPI && self.kind == "Cluster"
    }

    /// Returns whether it is a ClusterClass.
    pub fn is_class(&self) -> bool {
        self.group == CAPI && self.kind == "ClusterClass"
    }

    /// Returns whether it is a Secret.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }

    /// Returns the object as the rules of providers see it.
    pub fn movable<'a>(&'a self, object: &'a DynamicObject) -> Movable<'a> {
        Movable {
            group: &self.group,
            kind: &self.kind,
            object,
        }
    }

    /// Returns whether several clusters may use it.
    fn is_shared(&self) -> bool {
        self.namespace.is_none()
            || self.is_class()
            || (self.group == ADDONS && self.kind == "ClusterResourceSet")
    }

    /// Returns how it needs the other, if it does.
    fn need_of(&self, other: &Self) -> Option<Sharing> {
        let is_it = |needed: &&Needed| {
            needed.group == other.group && needed.kind == other.kind && needed.name == other.name
        };
        let needed = self.needs.iter().find(is_it)?;
        (self.namespace == other.namespace).then_some(needed.sharing)
    }

    /// Returns whether it can own the other: a namespaced object owns only its namespace's objects.
    fn can_own(&self, other: &Self) -> bool {
        self.namespace.is_none() || self.namespace == other.namespace
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Returns the steps in order, owners before dependents.
pub fn plan(nodes: &[Node], selection: Selection<'_>) -> Result<Vec<Step>, PlanError> {
    let graph = OwnerGraph::of(nodes, selection);
    let going = graph.moved(roots(nodes, selection));
    let mut staying = shared_dependents(&graph, &going, selection)?;
    staying.extend(needed_elsewhere(nodes, &going)?);
    let mut kept = graph.with_dependents(staying);
    kept.retain(|at| going.contains(at));
    let beside = graph.with_dependents(referenced(nodes, &going, selection));
    kept.extend(&beside);
    let all: BTreeSet<usize> = going.union(&beside).copied().collect();
    let order = graph.order(&all)?;
    let disposition = |at| match kept.contains(&at) {
        true => Disposition::Copy,
        false => Disposition::Move,
    };
    Ok(order
        .into_iter()
        .map(|at| Step {
            at,
            disposition: disposition(at),
        })
        .collect())
}

fn roots(nodes: &[Node], selection: Selection<'_>) -> Vec<usize> {
    let here = |node: &Node| node.namespace.as_deref() == Some(selection.namespace);
    let meant = |node: &Node| match selection.cluster {
        Some(name) => node.is_cluster() && node.name == name,
        None => node.root,
    };
    let numbered = nodes.iter().enumerate();
    numbered
        .filter(|(_, node)| here(node) && meant(node))
        .map(|(at, _)| at)
        .collect()
}

/// Returns the moved objects that a shared object, which stays, owns too. Fails if another
/// cluster owns one of them.
fn shared_dependents(
    graph: &OwnerGraph<'_>,
    going: &BTreeSet<usize>,
    selection: Selection<'_>,
) -> Result<Vec<usize>, PlanError> {
    let (mut staying, mut shared) = (Vec::new(), Vec::new());
    for &at in going {
        for &parent in &graph.parents[at] {
            let owner = &graph.nodes[parent];
            if going.contains(&parent) {
                continue;
            }
            if owner.is_cluster() && selection.cluster.is_some() {
                shared.push((graph.nodes[at].to_string(), owner.to_string()));
            } else if owner.is_shared() || graph.nodes[at].is_secret() {
                staying.push(at);
            }
        }
    }
    match shared.is_empty() {
        true => Ok(staying),
        false => Err(PlanError::Shared(shared)),
    }
}

/// Returns the moved objects that objects which stay need too, and that may be at both servers.
/// Fails if one of them must not be.
fn needed_elsewhere(nodes: &[Node], going: &BTreeSet<usize>) -> Result<Vec<usize>, PlanError> {
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    let staying = nodes.iter().enumerate();
    let staying = staying.filter(|(at, node)| !going.contains(at) && !node.needs.is_empty());
    for (_, by) in staying {
        for &at in going {
            match by.need_of(&nodes[at]) {
                Some(Sharing::Copied) => kept.push(at),
                Some(Sharing::Refused) => refused.push((nodes[at].to_string(), by.to_string())),
                None => {}
            }
        }
    }
    match refused.is_empty() {
        true => Ok(kept),
        false => Err(PlanError::Needed(refused)),
    }
}

/// Returns the objects that moved ones reference but do not own: identities, Secrets, and classes
/// if only one cluster is moved.
fn referenced(nodes: &[Node], going: &BTreeSet<usize>, selection: Selection<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let named = going.iter().map(|&going| &nodes[going]).any(|by| {
            names_identity(by, node)
                || (selection.cluster.is_some() && names_class(by, node))
                || (!going.contains(&at) && uses_secret(by, node))
        });
        if named {
            found.push(at);
        }
    }
    found
}

fn names_identity(by: &Node, node: &Node) -> bool {
    node.namespace.is_none()
        && node.group == by.group
        && by
            .identity
            .as_ref()
            .is_some_and(|named| named.kind == node.kind && named.name == node.name)
}

fn uses_secret(by: &Node, node: &Node) -> bool {
    node.is_secret() && node.namespace == by.namespace && by.used_secrets.contains(&node.name)
}

fn names_class(by: &Node, node: &Node) -> bool {
    node.is_class()
        && node.namespace == by.namespace
        && by.class.as_deref() == Some(node.name.as_str())
}

/// Owners and dependents of all objects, by index.
struct OwnerGraph<'a> {
    nodes: &'a [Node],
    parents: Vec<Vec<usize>>,
    children: Vec<Vec<usize>>,
}

impl<'a> OwnerGraph<'a> {
    fn of(nodes: &'a [Node], selection: Selection<'_>) -> Self {
        let by_uid: BTreeMap<&str, usize> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.uid.as_str(), at))
            .collect();
        let (mut parents, mut children) = (Vec::new(), vec![Vec::new(); nodes.len()]);
        for (at, node) in nodes.iter().enumerate() {
            let owners = node.owners.iter();
            let known = owners.filter_map(|uid| by_uid.get(uid.as_str()).copied());
            let mut found: Vec<usize> = known.filter(|&by| nodes[by].can_own(node)).collect();
            if node.is_secret() && node.owners.is_empty() {
                found.extend(owner_by_name(nodes, node, selection));
            }
            found.sort_unstable();
            found.dedup();
            for &by in &found {
                children[by].push(at);
            }
            parents.push(found);
        }
        Self {
            nodes,
            parents,
            children,
        }
    }

    /// Returns these objects with all their dependents.
    fn with_dependents(&self, begin: Vec<usize>) -> BTreeSet<usize> {
        let (mut found, mut open) = (BTreeSet::new(), begin);
        while let Some(at) = open.pop() {
            if found.insert(at) {
                open.extend(&self.children[at]);
            }
        }
        found
    }

    /// Returns the objects that move if these do: with their dependents, with what they need, and
    /// without what stays.
    fn moved(&self, roots: Vec<usize>) -> BTreeSet<usize> {
        let numbered = || self.nodes.iter().enumerate();
        let stays = numbered().filter(|(_, node)| node.stays);
        let with_dependents = self.with_dependents(stays.map(|(at, _)| at).collect());
        // What also belongs to an object that moves is copied.
        let belongs = |at: &usize| {
            let mut parents = self.parents[*at].iter();
            self.nodes[*at].stays || parents.all(|by| with_dependents.contains(by))
        };
        let stays: BTreeSet<usize> = with_dependents.iter().copied().filter(belongs).collect();
        let (mut found, mut open) = (BTreeSet::new(), roots);
        while let Some(at) = open.pop() {
            if stays.contains(&at) || !found.insert(at) {
                continue;
            }
            open.extend(&self.children[at]);
            let node = &self.nodes[at];
            if !node.needs.is_empty() {
                let needed = numbered().filter(|(_, other)| node.need_of(other).is_some());
                open.extend(needed.map(|(other, _)| other));
            }
        }
        found
    }

    /// Orders owners before dependents, and referenced objects before those that reference them.
    fn order(&self, all: &BTreeSet<usize>) -> Result<Vec<usize>, PlanError> {
        let mut before: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for &at in all {
            before.insert(at, self.before(at, all));
        }
        let mut order = Vec::with_capacity(all.len());
        while !before.is_empty() {
            let free = before.iter().filter(|(_, before)| before.is_empty());
            let free: BTreeSet<usize> = free.map(|(&at, _)| at).collect();
            if free.is_empty() {
                let left = before.keys().map(|&at| self.nodes[at].to_string());
                return Err(PlanError::Cycle(left.collect()));
            }
            before.retain(|at, _| !free.contains(at));
            for waiting in before.values_mut() {
                waiting.retain(|at| !free.contains(at));
            }
            order.extend(free);
        }
        Ok(order)
    }

    fn before(&self, at: usize, all: &BTreeSet<usize>) -> BTreeSet<usize> {
        let node = &self.nodes[at];
        let owners = self.parents[at].iter().copied();
        let named = all.iter().copied().filter(|&other| {
            let other = &self.nodes[other];
            names_identity(node, other)
                || names_class(node, other)
                || (node.follows_clusters && other.is_cluster())
        });
        owners.chain(named).filter(|by| all.contains(by)).collect()
    }
}

/// The suffixes of a cluster's Secrets, after its name.
const PURPOSES: [&str; 6] = [
    "apiserver-etcd-client",
    "ca",
    "etcd",
    "kubeconfig",
    "proxy",
    "sa",
];

/// Returns the owner of a Secret without owner references: the cluster or identity that its name
/// implies. Secrets of identities are in the provider's namespaces; one in the clusters'
/// namespace never belongs to an identity.
fn owner_by_name<'a>(
    nodes: &'a [Node],
    secret: &'a Node,
    selection: Selection<'_>,
) -> impl Iterator<Item = usize> + 'a {
    let beside = secret.namespace.as_deref() == Some(selection.namespace);
    let cluster = PURPOSES.iter().find_map(|purpose| {
        let stem = secret.name.strip_suffix(purpose)?;
        stem.strip_suffix('-')
    });
    let numbered = nodes.iter().enumerate();
    let has = move |node: &Node| match node.namespace {
        Some(_) => {
            node.is_cluster()
                && node.namespace == secret.namespace
                && Some(node.name.as_str()) == cluster
        }
        None => !beside && node.secret.as_deref() == Some(secret.name.as_str()),
    };
    numbered
        .filter(move |(_, node)| has(node))
        .map(|(at, _)| at)
}
