//! Finds owners: in the dependent's space, and there in its namespace or cluster-scoped.

use std::sync::Arc;

use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::registry::resource::Resource;
use insula_cache::{CollectionKey, Keyed};
use insula_cache::{OwnerRefs, Reference, Stored};
use insula_core::Space;
use insula_kinds::kinds;

/// The owners that objects of one space may have.
#[derive(Clone, Copy)]
pub struct Owners<'a> {
    /// The registry of the server.
    pub registry: &'a Registry,
    /// The space.
    pub space: &'a Space,
}

impl Owners<'_> {
    /// Whether the owner is known to have been deleted. That holds even if its kind is gone too.
    pub fn is_known_deleted(&self, reference: &Reference, namespace: Option<&str>) -> bool {
        let owner_graph = self.registry.cache().owner_graph();
        let Some(gone) = owner_graph.deleted_owner(self.space, &reference.uid) else {
            return false;
        };
        let (group, _) = reference.group_version();
        let same_kind = match gone.collection_key() {
            CollectionKey::BuiltIn(id) => {
                let kind = kinds().get(id);
                kind.group == group && kind.kind == *reference.kind
            }
            CollectionKey::Custom { group: of, .. } => of == group,
        };
        let here = gone.namespace().is_none() || gone.namespace() == namespace;
        same_kind && here && gone.name() == &*reference.name
    }

    /// The kind of an owner, if it is served and readable.
    pub fn kind(&self, reference: &Reference) -> Option<Resource> {
        let (group, version) = reference.group_version();
        let kind = self
            .registry
            .of_kind(self.space, group, version, &reference.kind);
        kind.filter(|kind| kind.supports("get"))
    }

    /// The object with the owner's name, if its kind is served.
    pub fn find(
        &self,
        reference: &Reference,
        namespace: Option<&str>,
    ) -> Option<(Address, Arc<Stored>)> {
        self.find_of(&self.kind(reference)?, reference, namespace)
    }

    /// The object with the owner's name, where an owner of the dependent may be.
    pub fn find_of(
        &self,
        kind: &Resource,
        reference: &Reference,
        namespace: Option<&str>,
    ) -> Option<(Address, Arc<Stored>)> {
        let namespace = namespace.filter(|_| kind.namespaced());
        let address = self.address(kind.storage(), namespace, &reference.name);
        let object = self.registry.seen(&address)?;
        Some((address, object))
    }

    /// The owners that wait for `owner` while it waits itself, with the namespace they are in.
    pub fn waits_for(
        &self,
        owner: &Reference,
        namespace: Option<&str>,
    ) -> Vec<(Reference, Option<String>)> {
        let found = self.find(owner, namespace);
        let found = found.filter(|(_, object)| object.uid() == Some(&owner.uid));
        let Some((address, object)) = found else {
            return Vec::new();
        };
        let owner_refs = object.owner_refs().filter(OwnerRefs::awaits_dependents);
        let owners = owner_refs
            .map(|owner_refs| owner_refs.owners)
            .unwrap_or_default()
            .into_iter();
        let blocked = owners.filter(Reference::blocks);
        blocked
            .map(|owner| (owner, address.namespace.clone()))
            .collect()
    }

    /// The address of an object in the space.
    pub fn address(&self, kind: Resource, namespace: Option<&str>, name: &str) -> Address {
        Address {
            kind,
            space: self.space.clone(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }
}
