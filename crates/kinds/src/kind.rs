//! The kinds that are served, as data: `data/kinds.json`.

mod custom;
mod version;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;

pub use custom::CustomKind;
pub use version::version_order;

use crate::types::{TypeId, types};

static TABLE: LazyLock<Kinds> = LazyLock::new(Kinds::load);

/// Returns the table of all built-in kinds.
pub fn kinds() -> &'static Kinds {
    &TABLE
}

/// Finds a kind of the core group by its plural name, which the table must contain.
pub fn core_kind(resource: &str) -> KindId {
    kinds()
        .find("", "v1", resource)
        .expect("the core group has the resource")
}

/// All built-in kinds, in the order of discovery.
#[derive(Debug)]
pub struct Kinds {
    kinds: Vec<Kind>,
    by_resource: HashMap<(&'static str, &'static str, &'static str), KindId>,
    by_kind: HashMap<(&'static str, &'static str, &'static str), KindId>,
    by_storage: HashMap<(&'static str, &'static str), KindId>,
}

/// The index of a kind in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(u16);

/// A kind in one version, and how it is served.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kind {
    /// The group, empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name in paths.
    pub resource: String,
    /// The name in objects.
    pub kind: String,
    /// Whether its objects are namespaced.
    pub scope: Scope,
    /// The singular name for kubectl.
    pub singular: String,
    /// The verbs listed in discovery.
    pub verbs: Vec<String>,
    /// The short names for kubectl.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// The categories for kubectl, such as `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// The subresources.
    #[serde(default)]
    pub subresources: Vec<Subresource>,
    /// Whether an update creates a missing object.
    #[serde(default)]
    pub create_on_update: bool,
    /// Whether an update may omit the resourceVersion.
    #[serde(default)]
    pub unconditional_update: bool,
    /// Whether a deletion returns the object even if it is removed at once.
    #[serde(default)]
    pub delete_returns_object: bool,
    /// Fields that a write to the object (`main`) or to a subresource leaves unchanged.
    #[serde(default)]
    pub reset_fields: BTreeMap<String, Vec<String>>,
    /// The default propagation policy of deletions.
    #[serde(default)]
    pub default_propagation: Propagation,
    /// Whether `metadata.generation` counts spec changes.
    #[serde(default)]
    pub generation: bool,
    /// Whether it is served in the system space only.
    #[serde(default)]
    pub system_only: bool,
    /// The fields that field selectors support.
    #[serde(default)]
    pub field_selectors: Vec<String>,
    /// The columns of its table.
    #[serde(default)]
    pub columns: Vec<Column>,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(skip, default = "unknown_type")]
    type_id: TypeId,
    #[serde(skip)]
    list_kind: String,
    #[serde(skip)]
    api_version: String,
    #[serde(skip, default = "unknown_kind")]
    storage: KindId,
    /// The storage version hash of a custom resource kind. Built-in kinds have theirs in
    /// a table of their own.
    #[serde(skip)]
    custom: Option<String>,
}

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Scope {
    /// Objects are in namespaces.
    Namespaced,
    /// Objects are cluster-scoped.
    Cluster,
}

/// A subresource.
#[derive(Clone, Debug, Deserialize)]
pub struct Subresource {
    /// The name in paths.
    pub name: String,
    /// The group of the kind it uses; empty if it is the parent's.
    pub group: String,
    /// The version of the kind it uses; empty if it is the parent's.
    pub version: String,
    /// The kind it uses.
    pub kind: String,
    /// The supported verbs.
    pub verbs: Vec<String>,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Propagation {
    /// They are garbage collected.
    #[default]
    Background,
    /// They are orphaned.
    Orphan,
    /// The kind has no dependents.
    Unsupported,
}

/// A column of a kind's table.
#[derive(Clone, Debug, Deserialize)]
pub struct Column {
    /// The title.
    pub name: String,
    /// `string`, `integer`, `boolean`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// `name` for the name column, otherwise empty.
    pub format: String,
    /// 0 for columns that are always shown, 1 for wide tables only.
    pub priority: i32,
    /// The description; may be empty.
    #[serde(default)]
    pub description: String,
}

impl KindId {
    /// Returns the index in the table.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Kinds {
    /// Returns the kind.
    pub fn get(&self, id: KindId) -> &Kind {
        &self.kinds[usize::from(id.0)]
    }

    /// Finds a kind by its plural name.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<KindId> {
        lookup(&self.by_resource, group, version, resource)
    }

    /// Finds a kind by the name in objects.
    pub fn find_by_kind(&self, group: &str, version: &str, kind: &str) -> Option<KindId> {
        lookup(&self.by_kind, group, version, kind)
    }

    /// Finds the kind in which objects of the resource are stored.
    pub fn find_storage(&self, group: &str, resource: &str) -> Option<KindId> {
        self.by_storage.get(&(group, resource)).copied()
    }

    /// Iterates over all kinds in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &Kind)> {
        (0u16..).map(KindId).zip(&self.kinds)
    }

    /// Whether any kind is served in the group and version.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|kind| kind.group == group && kind.version == version)
    }

    /// Whether any version of the group is served.
    pub fn has_group(&self, group: &str) -> bool {
        self.kinds.iter().any(|kind| kind.group == group)
    }

    fn load() -> Self {
        let mut kinds: Vec<Kind> = serde_json::from_str(include_str!("../data/kinds.json"))
            .expect("the table is generated");
        for kind in &mut kinds {
            kind.type_id = types().find(&kind.type_name).expect("the tables agree");
            kind.list_kind = format!("{}List", kind.kind);
            kind.api_version = api_version(&kind.group, &kind.version);
        }
        let ids = || (0u16..).map(KindId);
        let kinds_and_ids = || kinds.iter().zip(ids());
        let by_resource: HashMap<_, _> = kinds_and_ids()
            .map(|(kind, id)| (leak(kind, &kind.resource), id))
            .collect();
        let by_kind = kinds_and_ids()
            .map(|(kind, id)| (leak(kind, &kind.kind), id))
            .collect();
        let storages: Vec<KindId> = kinds_and_ids()
            .map(
                |(kind, id)| match (kind.group.as_str(), kind.version.as_str()) {
                    ("events.k8s.io", _) => by_resource[&("", "v1", "events")],
                    ("autoscaling", "v1") => {
                        by_resource[&("autoscaling", "v2", "horizontalpodautoscalers")]
                    }
                    _ => id,
                },
            )
            .collect();
        for (kind, storage) in kinds.iter_mut().zip(storages) {
            kind.storage = storage;
        }
        let stored = by_resource.iter().filter(|(_, id)| {
            let kind = &kinds[id.index()];
            kind.storage == **id && kind.supports("get")
        });
        let by_storage = stored.map(|((group, _, resource), id)| ((*group, *resource), *id));
        let by_storage = by_storage.collect();
        Self {
            kinds,
            by_resource,
            by_kind,
            by_storage,
        }
    }
}

impl Kind {
    /// Whether this is a custom resource kind. It may have the same name as a built-in
    /// kind; the rules of that kind do not apply to it.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Returns the storage version hash of a custom resource kind.
    pub(crate) fn custom_hash(&self) -> Option<&str> {
        self.custom.as_deref()
    }

    /// Returns the type of its objects.
    pub fn type_id(&self) -> TypeId {
        self.type_id
    }

    /// Returns `v1` or `group/version`.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the kind of a list of its objects.
    pub fn list_kind(&self) -> &str {
        &self.list_kind
    }

    /// Returns the kind in which its objects are stored: itself, unless another version
    /// of the same objects is the storage version.
    pub fn storage(&self) -> KindId {
        self.storage
    }

    /// Returns `resource` or `resource.group`, as errors name it.
    pub fn qualified_resource(&self) -> String {
        qualified(&self.resource, &self.group)
    }

    /// Returns `Kind` or `Kind.group`, as errors name it.
    pub fn qualified_kind(&self) -> String {
        qualified(&self.kind, &self.group)
    }

    /// Whether its objects are namespaced.
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether discovery lists the verb.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|can| can == verb)
    }

    /// Finds a subresource by name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

/// Returns `v1` or `group/version`.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

type Names = (&'static str, &'static str, &'static str);

fn lookup(map: &HashMap<Names, KindId>, group: &str, version: &str, name: &str) -> Option<KindId> {
    // The borrow checker needs one lifetime for stored and requested keys.
    let map: &HashMap<(&str, &str, &str), KindId> = map;
    map.get(&(group, version, name)).copied()
}

/// Leaks the names, as the table lives as long as the process.
fn leak(kind: &Kind, name: &str) -> Names {
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    (leak(&kind.group), leak(&kind.version), leak(name))
}

fn unknown_type() -> TypeId {
    types().iter().next().expect("the table is not empty").0
}

fn unknown_kind() -> KindId {
    KindId(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_type_of_its_name() {
        for (_, kind) in kinds().iter() {
            assert_eq!(types().get(kind.type_id()).kind(), kind.kind);
        }
        assert_eq!(kinds().iter().count(), 71);
    }

    #[test]
    fn versions_share_one_storage_kind() {
        let old = kinds()
            .find("autoscaling", "v1", "horizontalpodautoscalers")
            .unwrap();
        let new = kinds()
            .find("autoscaling", "v2", "horizontalpodautoscalers")
            .unwrap();
        assert_eq!(kinds().get(old).storage(), new);
        assert_eq!(kinds().get(new).storage(), new);
        let events = kinds()
            .find_by_kind("events.k8s.io", "v1", "Event")
            .unwrap();
        assert_eq!(kinds().get(kinds().get(events).storage()).group, "");
    }

    #[test]
    fn errors_name_a_kind_with_its_group() {
        let deployments = kinds().find("apps", "v1", "deployments").unwrap();
        let deployments = kinds().get(deployments);
        assert_eq!(deployments.qualified_resource(), "deployments.apps");
        assert_eq!(deployments.qualified_kind(), "Deployment.apps");
        assert_eq!(deployments.list_kind(), "DeploymentList");
    }
}
