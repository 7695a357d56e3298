//! Owner references into another namespace.

use std::collections::HashMap;
use std::sync::Arc;

use insula_cache::{Node, Reference};

use super::evaluator::{Decision, Seen};
use super::owners::Owners;

/// Known locations of objects, valid for one state of the cache.
#[derive(Debug, Default)]
pub struct CrossNamespaceRefs {
    /// Whether an object with this UID exists in any namespace.
    anywhere: HashMap<Box<str>, bool>,
}

/// An owner reference into another namespace.
#[derive(Clone, Debug)]
pub struct CrossNamespaceRef {
    /// The object with the reference.
    pub dependent: Seen,
    /// The reference.
    pub reference: Reference,
}

impl CrossNamespaceRefs {
    /// The references into another namespace of an object that loses an owner for that reason. Its
    /// author should be told.
    pub fn of(
        &mut self,
        owners: Owners<'_>,
        node: &Node,
        decision: &Decision,
    ) -> Vec<CrossNamespaceRef> {
        let dependent = match decision {
            Decision::Delete(pending) => Seen {
                address: pending.address.clone(),
                object: Arc::clone(&pending.object),
            },
            Decision::RemoveOwners(seen, _) | Decision::Misplaced(seen) => seen.clone(),
            _ => return Vec::new(),
        };
        let named = dependent
            .object
            .owner_refs()
            .map(|owner_refs| owner_refs.owners);
        let named = named.unwrap_or_default().into_iter();
        let crossing =
            named.filter(|owner| self.is_cross_namespace(owners, owner, node.namespace()));
        let cross_namespace = crossing.map(|reference| CrossNamespaceRef {
            dependent: dependent.clone(),
            reference,
        });
        cross_namespace.collect()
    }

    fn is_cross_namespace(
        &mut self,
        owners: Owners<'_>,
        reference: &Reference,
        namespace: Option<&str>,
    ) -> bool {
        if owners.is_known_deleted(reference, namespace) {
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
