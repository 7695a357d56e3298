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

/// The table of all kinds.
pub fn kinds() -> &'static Kinds {
    &TABLE
}

/// The kind of the core group with this plural, which the table must contain.
pub fn core_kind(resource: &str) -> KindId {
    kinds()
        .find("", "v1", resource)
        .expect("the core group has the resource")
}

/// All kinds, in the order of discovery.
#[derive(Debug)]
pub struct Kinds {
    kinds: Vec<Kind>,
    by_resource: HashMap<(&'static str, &'static str, &'static str), KindId>,
    by_kind: HashMap<(&'static str, &'static str, &'static str), KindId>,
    by_storage: HashMap<(&'static str, &'static str), KindId>,
}

/// A kind's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(u16);

/// A kind in one version, and how it is served.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kind {
    /// Its group, empty for the core.
    pub group: String,
    /// Its version.
    pub version: String,
    /// The plural in paths.
    pub resource: String,
    /// The name in objects.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub scope: Scope,
    /// The singular that kubectl takes.
    pub singular: String,
    /// What can be asked of it, as discovery tells.
    pub verbs: Vec<String>,
    /// The short names that kubectl takes.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// The categories that kubectl takes, such as `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// What is served below an object.
    #[serde(default)]
    pub subresources: Vec<Subresource>,
    /// An update creates what is missing.
    #[serde(default)]
    pub create_on_update: bool,
    /// An update needs no resourceVersion.
    #[serde(default)]
    pub unconditional_update: bool,
    /// A deletion answers with the object even if it is gone.
    #[serde(default)]
    pub delete_returns_object: bool,
    /// What a write to the object (`main`) or to a subresource leaves as it was.
    #[serde(default)]
    pub reset_fields: BTreeMap<String, Vec<String>>,
    /// What becomes of dependents if nobody says.
    #[serde(default)]
    pub default_propagation: Propagation,
    /// Whether `metadata.generation` counts changes of the specification.
    #[serde(default)]
    pub generation: bool,
    /// Whether it exists in the system space only.
    #[serde(default)]
    pub system_only: bool,
    /// The fields that a field selector may name.
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
    /// What discovery tells of a kind that a user defined; those of the table have theirs
    /// in another table.
    #[serde(skip)]
    custom: Option<String>,
}

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Scope {
    /// In namespaces.
    Namespaced,
    /// In the space itself.
    Cluster,
}

/// What is served below an object.
#[derive(Clone, Debug, Deserialize)]
pub struct Subresource {
    /// Its name in paths.
    pub name: String,
    /// The group of what it takes and gives; empty if it is the parent's.
    pub group: String,
    /// The version of what it takes and gives; empty if it is the parent's.
    pub version: String,
    /// The kind of what it takes and gives.
    pub kind: String,
    /// What can be asked of it.
    pub verbs: Vec<String>,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Propagation {
    /// They are collected later.
    #[default]
    Background,
    /// They are left behind.
    Orphan,
    /// The kind knows no dependents.
    Unsupported,
}

/// A column of a kind's table.
#[derive(Clone, Debug, Deserialize)]
pub struct Column {
    /// Its title.
    pub name: String,
    /// `string`, `integer`, `boolean`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// `name` for the name.
    pub format: String,
    /// 0 is always shown, 1 in wide tables.
    pub priority: i32,
    /// What it shows, if somebody said.
    #[serde(default)]
    pub description: String,
}

impl KindId {
    /// Its place in the table.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Kinds {
    /// The kind.
    pub fn get(&self, id: KindId) -> &Kind {
        &self.kinds[usize::from(id.0)]
    }

    /// The kind whose plural is `resource`.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<KindId> {
        lookup(&self.by_resource, group, version, resource)
    }

    /// The kind that objects call `kind`.
    pub fn find_by_kind(&self, group: &str, version: &str, kind: &str) -> Option<KindId> {
        lookup(&self.by_kind, group, version, kind)
    }

    /// The kind as which objects of the resource are stored.
    pub fn find_storage(&self, group: &str, resource: &str) -> Option<KindId> {
        self.by_storage.get(&(group, resource)).copied()
    }

    /// All of them, in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &Kind)> {
        (0u16..).map(KindId).zip(&self.kinds)
    }

    /// Whether anything is served in the group and version.
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
    /// Whether a user defined it. Its name may then be that of a kind of the table, whose
    /// rules are not its own.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// The hash that discovery tells, of a kind that a user defined.
    pub(crate) fn custom_hash(&self) -> Option<&str> {
        self.custom.as_deref()
    }

    /// The type of its objects.
    pub fn type_id(&self) -> TypeId {
        self.type_id
    }

    /// `v1` or `group/version`.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The kind of a list of its objects.
    pub fn list_kind(&self) -> &str {
        &self.list_kind
    }

    /// The kind as which its objects are stored: itself, unless it is another version of
    /// the same objects.
    pub fn storage(&self) -> KindId {
        self.storage
    }

    /// `resource` or `resource.group`, as errors name it.
    pub fn qualified_resource(&self) -> String {
        qualified(&self.resource, &self.group)
    }

    /// `Kind` or `Kind.group`, as errors name it.
    pub fn qualified_kind(&self) -> String {
        qualified(&self.kind, &self.group)
    }

    /// Whether its objects live in namespaces.
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether discovery names the verb.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|can| can == verb)
    }

    /// What is served below its objects under that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

/// `v1` or `group/version`.
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
    // The borrow checker wants one lifetime for stored and asked keys; all live long enough.
    let map: &HashMap<(&str, &str, &str), KindId> = map;
    map.get(&(group, version, name)).copied()
}

/// The table lives as long as the process.
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
        assert_eq!(kinds().iter().count(), 69);
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
