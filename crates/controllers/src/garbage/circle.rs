//! Owners that wait for each other in a circle.

use std::collections::HashSet;

use insula_cache::{OwnerRefs, Reference};

use super::owners::Owners;

/// What is known of circles, at one moment.
#[derive(Debug, Default)]
pub struct Circles {
    /// The owners above which nobody waits in a circle, by their UIDs.
    straight: HashSet<Box<str>>,
}

/// How far a circle is looked for. Whoever makes a longer one has their objects go in some
/// order, and not in none.
const FARTHEST: usize = 10_000;

impl Circles {
    /// The owners that an object keeps waiting, and that keep it waiting, by their UIDs.
    pub fn through(
        &mut self,
        owners: Owners<'_>,
        ties: &OwnerRefs,
        namespace: Option<&str>,
    ) -> Vec<Box<str>> {
        let blocking = ties.owners.iter().filter(|owner| owner.blocks());
        let circular = blocking.filter(|owner| {
            !self.is_straight(owners, owner, namespace)
                && leads_back(owners, owner, namespace, ties)
        });
        circular.map(|owner| owner.uid.clone()).collect()
    }

    /// Whether nobody waits in a circle among an owner and those that wait for it, and so on.
    /// What was found out is remembered, so that a long row is walked along once.
    fn is_straight(
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
            if self.straight.contains(&owner.uid) || closed.contains(&owner.uid) {
                continue;
            }
            if !open.insert(owner.uid.clone()) || closed.len() > FARTHEST {
                return false;
            }
            ahead.push(Step::Leave(owner.uid.clone()));
            let above = owners.waits_for(&owner, namespace.as_deref());
            ahead.extend(above.into_iter().map(|(owner, at)| Step::Enter(owner, at)));
        }
        self.straight.extend(closed);
        true
    }
}

/// Whether an owner waits, over however many others, for the object that names it.
fn leads_back(
    owners: Owners<'_>,
    owner: &Reference,
    namespace: Option<&str>,
    to: &OwnerRefs,
) -> bool {
    let mut visited: HashSet<Box<str>> = HashSet::new();
    let mut ahead = vec![(owner.clone(), namespace.map(str::to_owned))];
    while let Some((owner, namespace)) = ahead.pop() {
        if owner.uid == to.uid || visited.len() > FARTHEST {
            return true;
        }
        if visited.insert(owner.uid.clone()) {
            ahead.extend(owners.waits_for(&owner, namespace.as_deref()));
        }
    }
    false
}
