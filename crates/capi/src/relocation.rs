//! The rules of providers for moves of clusters to another API server.
//!
//! A move takes along what Cluster API defines: clusters with all their dependents, and the
//! cluster-scoped identities that they reference. A provider adds what only it knows.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

/// The rules of a provider for moves.
pub trait MoveRules: Debug + Send + Sync {
    /// Returns the namespace with the Secrets of the provider's cluster-scoped identities.
    fn identity_namespace(&self) -> Option<&'static str> {
        None
    }

    /// Returns why an object must not be moved now, as the end of a sentence about it.
    fn obstacle(&self, object: Movable<'_>) -> Option<&'static str>;

    /// Returns the Secrets of its own namespace that an object uses without owning them, by name.
    /// They are copied with the object, and stay at the source, where others may use them.
    fn secrets(&self, object: Movable<'_>) -> Vec<String> {
        let _ = object;
        Vec::new()
    }

    /// Returns what is wrong at the target with a Secret that an object uses; none if nothing is.
    fn unsuitable_secret(&self, object: Movable<'_>, secret: &Secret) -> Option<Unsuitable> {
        let _ = (object, secret);
        None
    }

    /// Returns the namespaced kinds, each as group and kind, of objects that move with all
    /// clusters of their namespace, also if no label of their definitions says so. They are copied
    /// after the clusters.
    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns the objects of its own namespace that have to move with an object, and that it does
    /// not own. Those that do not exist are ignored.
    fn needs(&self, object: Movable<'_>) -> Vec<Needed> {
        let _ = object;
        Vec::new()
    }

    /// Returns whether an object stays at the source, with all its dependents, although objects of
    /// its kind move with their namespace.
    fn stays(&self, object: Movable<'_>) -> bool {
        let _ = object;
        false
    }

    /// Returns the merge patch that makes the controllers of an object leave it alone, if the pause
    /// of a cluster does not. The mark is that of the move. None if nothing has to be done.
    fn hold(&self, object: Movable<'_>, mark: &str) -> Option<Value> {
        let _ = (object, mark);
        None
    }

    /// Returns the merge patch that ends a pause that [`hold`](Self::hold) set with this mark; none
    /// if there is no such pause.
    fn resume(&self, object: Movable<'_>, mark: &str) -> Option<Value> {
        let _ = (object, mark);
        None
    }

    /// Returns the cluster-scoped kinds that moved objects use and that are never moved: an
    /// administrator of the target has to provide them.
    fn shared_kinds(&self) -> &'static [SharedKind] {
        &[]
    }

    /// Returns which objects of the shared kinds an object uses; the object is a moved or a shared
    /// one.
    fn uses(&self, object: Movable<'_>, shared: &SharedObjects) -> Vec<Shared> {
        let _ = (object, shared);
        Vec::new()
    }
}

/// An object that is moved, or that a moved object uses.
#[derive(Clone, Copy, Debug)]
pub struct Movable<'a> {
    /// The group of its kind.
    pub group: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// The object. Of Secrets and ConfigMaps, only the metadata.
    pub object: &'a DynamicObject,
}

impl Movable<'_> {
    /// Returns whether it is of a kind.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

/// An object that has to move with another one of its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The group of its kind.
    pub group: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What happens if an object that is not moved needs it too.
    pub sharing: Sharing,
}

/// Whether an object may be at both servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It must not: nothing is moved if an object that stays needs it too.
    Refused,
    /// It may: it is copied if an object that stays needs it too.
    Copied,
}

/// What is wrong with a Secret at the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsuitable {
    /// It must not be used there. The text is the end of a sentence about the Secret.
    Refused(String),
    /// It may be of no use there. The text is the end of a sentence about the Secret.
    Doubtful(String),
}

/// A cluster-scoped kind of objects that are never moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedKind {
    /// The group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
}

/// A reference to an object of a shared kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shared {
    /// The kind.
    pub kind: SharedKind,
    /// The name.
    pub name: String,
}

/// The objects of shared kinds at the source.
#[derive(Debug, Default)]
pub struct SharedObjects(Vec<(SharedKind, DynamicObject)>);

impl SharedObjects {
    /// Adds the objects of a kind.
    pub fn add(&mut self, kind: SharedKind, objects: impl IntoIterator<Item = DynamicObject>) {
        let objects = objects.into_iter();
        self.0.extend(objects.map(|object| (kind, object)));
    }

    /// Returns all objects of a kind.
    pub fn of_kind(&self, kind: SharedKind) -> impl Iterator<Item = &DynamicObject> {
        let of_kind = self.0.iter().filter(move |(other, _)| *other == kind);
        of_kind.map(|(_, object)| object)
    }

    /// Returns one object.
    pub fn find(&self, shared: &Shared) -> Option<&DynamicObject> {
        self.of_kind(shared.kind)
            .find(|object| object.name_any() == shared.name)
    }
}

/// Returns all namespaces with the Secrets of cluster-scoped identities.
pub fn identity_namespaces(providers: &[&dyn MoveRules]) -> Vec<String> {
    let namespaces = providers.iter();
    let namespaces = namespaces.filter_map(|rules| rules.identity_namespace());
    namespaces.map(str::to_owned).collect()
}
