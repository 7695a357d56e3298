//! Cycles of owners that wait for each other.

use std::collections::HashSet;

use insula_cache::{OwnerRefs, Reference};

use super::owners::Owners;

/// Known results of the cycle search, valid for one state of the cache.
#[derive(Debug, Default)]
pub struct Cycles {
    /// UIDs of owners above which there is no cycle.
    acyclic: HashSet<Box<str>>,
}

/// The bound of the search. A longer cycle is treated as one without search, so that its objects
/// are deleted in some order.
const MAX_SEARCH: usize = 10_000;

impl Cycles {
    /// The UIDs of the owners that wait for the object and that it waits for in turn.
    pub fn through(
        &mut self,
        owners: Owners<'_>,
        owner_refs: &OwnerRefs,
        namespace: Option<&str>,
    ) -> Vec<Box<str>> {
        let blocking = owner_refs.owners.iter().filter(|owner| owner.blocks());
        let cyclic = blocking.filter(|owner| {
            !self.is_acyclic(owners, owner, namespace)
                && leads_back(owners, owner, namespace, owner_refs)
        });
        cyclic.map(|owner| owner.uid.clone()).collect()
    }

    /// Whether neither an owner nor the owners waiting above it are part of a cycle. Results are
    /// kept, so that a long chain is walked once.
    fn is_acyclic(
        &mut self,
        owners: Owners<'_>,
        owner: &Reference,
        namespace: Option<&str>,
    ) -> bool {
        enum Step {
            Enter(Reference, Option<String>),
            Leave(Box<str>),
        }
        let (mut open, mut closed) = (HashSet::new(), HashSet::new());
        let mut ahead = vec![Step::Enter(owner.clone(), namespace.map(str::to_owned))];
        while let Some(step) = ahead.pop() {
            let (owner, namespace) = match step {
                Step::Enter(owner, namespace) => (owner, namespace),
                Step::Leave(uid) => {
                    open.remove(&uid);
                    closed.insert(uid);
                    continue;
                }
            };
            if self.acyclic.contains(&owner.uid) || closed.contains(&owner.uid) {
                continue;
            }
            if !open.insert(owner.uid.clone()) || closed.len() > MAX_SEARCH {
                return false;
            }
            ahead.push(Step::Leave(owner.uid.clone()));
            let above = owners.waits_for(&owner, namespace.as_deref());
            ahead.extend(above.into_iter().map(|(owner, at)| Step::Enter(owner, at)));
        }
        self.acyclic.extend(closed);
        true
    }
}

/// Whether an owner waits, directly or not, for the object that names it.
fn leads_back(
    owners: Owners<'_>,
    owner: &Reference,
    namespace: Option<&str>,
    to: &OwnerRefs,
) -> bool {
    let mut visited: HashSet<Box<str>> = HashSet::new();
    let mut ahead = vec![(owner.clone(), namespace.map(str::to_owned))];
    while let Some((owner, namespace)) = ahead.pop() {
        if owner.uid == to.uid || visited.len() > MAX_SEARCH {
            return true;
        }
        if visited.insert(owner.uid.clone()) {
            ahead.extend(owners.waits_for(&owner, namespace.as_deref()));
        }
    }
    false
}
