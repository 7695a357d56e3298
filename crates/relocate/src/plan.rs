//! Pure: what moves, what is copied, and in which order.
//!
//! What is asked for moves with everything below it. Above and beside it there are things
//! that others use too: identities and what they own, and, if only one cluster is moved, the
//! classes that it is made from. These are copied if the target does not have them, and stay
//! where they are.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::error::Error;
use crate::names::{ADDONS, CAPI};

/// An object, as far as it matters where it goes.
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
    /// What tells it from all others of its server.
    pub uid: String,
    /// The UIDs of who owns it.
    pub owners: Vec<String>,
    /// Whether it moves by itself, and not because of who owns it.
    pub root: bool,
    /// The identity that it names.
    pub identity: Option<Named>,
    /// The class that it names.
    pub class: Option<String>,
    /// The Secret that it names, if it is an identity.
    pub secret: Option<String>,
}

/// What somebody names: a kind of their own group, without a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// Of which kind.
    pub kind: String,
    /// What it is called.
    pub name: String,
}

/// What is to be moved.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Of which namespace.
    pub namespace: &'a str,
    /// The only cluster, if not everything.
    pub cluster: Option<&'a str>,
}

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It is made at the target and deleted at the source.
    Move,
    /// It is made at the target if it is not there, and stays at the source.
    Copy,
}

/// What is done with one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which of those that were given.
    pub at: usize,
    /// What becomes of it.
    pub fate: Fate,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// These own each other.
    Circle(Vec<String>),
    /// These belong to clusters that stay, too: what, and whose.
    Shared(Vec<(String, String)>),
}

impl Trouble {
    /// The same, for who asked for the move.
    pub fn told(self) -> Error {
        match self {
            Self::Circle(nodes) => Error::Circle(nodes),
            Self::Shared(pairs) => {
                let shared = pairs.iter();
                let told =
                    shared.map(|(what, by)| format!("{what} belongs to {by} too, which stays"));
                Error::Unfit(told.collect())
            }
        }
    }
}

impl Node {
    /// Whether it is a cluster.
    pub fn is_cluster(&self) -> bool {
        self.group == CAPI && self.kind == "Cluster"
    }

    /// Whether it is what clusters are made from.
    pub fn is_class(&self) -> bool {
        self.group == CAPI && self.kind == "ClusterClass"
    }

    /// Whether it is a Secret.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }

    /// Whether clusters that are moved one by one share it.
    fn is_shared(&self) -> bool {
        self.namespace.is_none()
            || self.is_class()
            || (self.group == ADDONS && self.kind == "ClusterResourceSet")
    }

    /// Whether it may own that one at all: nothing of a namespace owns anything outside of it.
    fn reaches(&self, other: &Self) -> bool {
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

/// What is done, owners before what they own.
pub fn plan(nodes: &[Node], wanted: Wanted<'_>) -> Result<Vec<Step>, Trouble> {
    let family = Family::of(nodes, wanted);
    let going = family.below(roots(nodes, wanted));
    let staying = strangers(&family, &going, wanted)?;
    let mut kept = family.below(staying);
    kept.retain(|at| going.contains(at));
    let beside = family.below(beside(nodes, &going, wanted));
    kept.extend(&beside);
    let all: BTreeSet<usize> = going.union(&beside).copied().collect();
    let order = family.order(&all)?;
    let fate = |at| match kept.contains(&at) {
        true => Fate::Copy,
        false => Fate::Move,
    };
    Ok(order
        .into_iter()
        .map(|at| Step { at, fate: fate(at) })
        .collect())
}

fn roots(nodes: &[Node], wanted: Wanted<'_>) -> Vec<usize> {
    let here = |node: &Node| node.namespace.as_deref() == Some(wanted.namespace);
    let meant = |node: &Node| match wanted.cluster {
        Some(name) => node.is_cluster() && node.name == name,
        None => node.root,
    };
    let numbered = nodes.iter().enumerate();
    numbered
        .filter(|(_, node)| here(node) && meant(node))
        .map(|(at, _)| at)
        .collect()
}

/// What goes but is owned by something that stays as well: by what is shared, which is as it
/// should be, or by another cluster, which is not.
fn strangers(
    family: &Family<'_>,
    going: &BTreeSet<usize>,
    wanted: Wanted<'_>,
) -> Result<Vec<usize>, Trouble> {
    let (mut staying, mut shared) = (Vec::new(), Vec::new());
    for &at in going {
        for &parent in &family.parents[at] {
            let owner = &family.nodes[parent];
            if going.contains(&parent) {
                continue;
            }
            if owner.is_cluster() && wanted.cluster.is_some() {
                shared.push((family.nodes[at].to_string(), owner.to_string()));
            } else if owner.is_shared() {
                staying.push(at);
            }
        }
    }
    match shared.is_empty() {
        true => Ok(staying),
        false => Err(Trouble::Shared(shared)),
    }
}

/// What those who go name but do not own: identities, and classes if these do not go anyway.
fn beside(nodes: &[Node], going: &BTreeSet<usize>, wanted: Wanted<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let named = going.iter().map(|&going| &nodes[going]).any(|by| {
            names_identity(by, node) || (wanted.cluster.is_some() && names_class(by, node))
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

fn names_class(by: &Node, node: &Node) -> bool {
    node.is_class()
        && node.namespace == by.namespace
        && by.class.as_deref() == Some(node.name.as_str())
}

/// Who owns whom.
struct Family<'a> {
    nodes: &'a [Node],
    parents: Vec<Vec<usize>>,
    children: Vec<Vec<usize>>,
}

impl<'a> Family<'a> {
    fn of(nodes: &'a [Node], wanted: Wanted<'_>) -> Self {
        let by_uid: BTreeMap<&str, usize> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.uid.as_str(), at))
            .collect();
        let (mut parents, mut children) = (Vec::new(), vec![Vec::new(); nodes.len()]);
        for (at, node) in nodes.iter().enumerate() {
            let owners = node.owners.iter();
            let known = owners.filter_map(|uid| by_uid.get(uid.as_str()).copied());
            let mut found: Vec<usize> = known.filter(|&by| nodes[by].reaches(node)).collect();
            if node.is_secret() && node.owners.is_empty() {
                found.extend(by_name(nodes, node, wanted));
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

    /// These, and all that they own.
    fn below(&self, begin: Vec<usize>) -> BTreeSet<usize> {
        let (mut found, mut open) = (BTreeSet::new(), begin);
        while let Some(at) = open.pop() {
            if found.insert(at) {
                open.extend(&self.children[at]);
            }
        }
        found
    }

    /// Owners before what they own, and what is named before who names it.
    fn order(&self, all: &BTreeSet<usize>) -> Result<Vec<usize>, Trouble> {
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
                return Err(Trouble::Circle(left.collect()));
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
            names_identity(node, &self.nodes[other]) || names_class(node, &self.nodes[other])
        });
        owners.chain(named).filter(|by| all.contains(by)).collect()
    }
}

/// What Secrets of a cluster are called, after its name.
const PURPOSES: [&str; 6] = [
    "apiserver-etcd-client",
    "ca",
    "etcd",
    "kubeconfig",
    "proxy",
    "sa",
];

/// Who has a Secret that nobody owns: the cluster, or the identity, that its name says. Those
/// of identities are in namespaces of their own: one beside the clusters is somebody's else.
fn by_name<'a>(
    nodes: &'a [Node],
    secret: &'a Node,
    wanted: Wanted<'_>,
) -> impl Iterator<Item = usize> + 'a {
    let beside = secret.namespace.as_deref() == Some(wanted.namespace);
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
