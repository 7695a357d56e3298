//! Owner references into another namespace.

use std::collections::HashMap;
use std::sync::Arc;

use insula_cache::{Node, Reference};

use super::judge::{Seen, Verdict};
use super::owners::Owners;

/// Known locations of objects, valid for one state of the cache.
#[derive(Debug, Default)]
pub struct Strays {
    /// Whether an object with this UID exists in any namespace.
    anywhere: HashMap<Box<str>, bool>,
}

/// An owner reference into another namespace.
#[derive(Clone, Debug)]
pub struct Stray {
    /// The object with the reference.
    pub dependent: Seen,
    /// The reference.
    pub reference: Reference,
}

impl Strays {
    /// The references into another namespace of an object that loses an owner for that reason. Its
    /// author should be told.
    pub fn of(&mut self, owners: Owners<'_>, node: &Node, verdict: &Verdict) -> Vec<Stray> {
        let dependent = match verdict {
            Verdict::Delete(doomed) => Seen {
                address: doomed.address.clone(),
                object: Arc::clone(&doomed.object),
            },
            Verdict::Strip(seen, _) | Verdict::Misplaced(seen) => seen.clone(),
            _ => return Vec::new(),
        };
        let named = dependent.object.owner_refs().map(|ties| ties.owners);
        let named = named.unwrap_or_default().into_iter();
        let astray = named.filter(|owner| self.is_stray(owners, owner, node.namespace()));
        let strays = astray.map(|reference| Stray {
            dependent: dependent.clone(),
            reference,
        });
        strays.collect()
    }

    fn is_stray(
        &mut self,
        owners: Owners<'_>,
        reference: &Reference,
        namespace: Option<&str>,
    ) -> bool {
        if owners.was_seen_to_go(reference, namespace) {
            return false;
        }
        let Some(kind) = owners.kind(reference).filter(|kind| kind.namespaced()) else {
            return false;
        };
        let found = namespace.and_then(|_| owners.find_of(&kind, reference, namespace));
        if found.is_some_and(|(_, object)| object.uid() == Some(&reference.uid)) {
            return false;
        }
        let (cache, space) = (owners.registry.cache(), owners.space);
        let anywhere = self.anywhere.entry(reference.uid.clone());
        *anywhere.or_insert_with(|| {
            let all = cache.find(kind.storage(), space);
            let all = all.map(|all| all.snapshot("", None).objects);
            let mut all = all.unwrap_or_default().into_iter();
            all.any(|object| object.uid() == Some(&reference.uid))
        })
    }
}
