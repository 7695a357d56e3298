//! API discovery: the aggregated document and the legacy ones.
//!
//! A [`Catalog`] is a tree of groups, versions and resources from which every document is
//! built. Members are written in the order of Go, as some clients compare bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::{Serialize, Serializer};

use crate::{Kind, Object, Scope, TypeId, Value, api_version, kinds, types, version_order};

mod legacy;

pub use legacy::api_versions;

static HASHES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let lines = include_str!("../data/storage-hashes.txt").lines();
    lines.filter_map(|line| line.split_once(' ')).collect()
});

/// The two roots of API discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// `/api`: the core group.
    Api,
    /// `/apis`: all other groups.
    Apis,
}

/// The resources that a space serves.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The groups in the order of preference, the core group first.
    pub groups: Vec<Group>,
}

/// A group of resources.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Its name, empty for the core.
    #[serde(rename = "metadata", serialize_with = "metadata_of")]
    pub name: String,
    /// Its versions, the preferred one first.
    pub versions: Vec<Version>,
}

/// A version of a group.
#[derive(Clone, Debug, Serialize)]
pub struct Version {
    /// Its name.
    #[serde(rename = "version")]
    pub name: String,
    /// The resources, ordered by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    /// Whether the resources are known to be up to date.
    pub freshness: Freshness,
}

/// Whether the resources of a version are known to be up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Freshness {
    /// They are up to date.
    Current,
    /// The server behind them has not responded recently.
    Stale,
}

/// A resource.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The plural name.
    #[serde(rename = "resource")]
    pub name: String,
    /// The kind of its objects.
    pub response_kind: ResponseKind,
    /// Whether its objects are namespaced.
    #[serde(serialize_with = "scope_name")]
    pub scope: Scope,
    /// The singular name.
    pub singular_resource: String,
    /// The supported verbs.
    pub verbs: Vec<String>,
    /// Its short names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<String>,
    /// Its categories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// The subresources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subresources: Vec<Subresource>,
    /// The storage version hash; only the legacy documents contain it.
    #[serde(skip)]
    pub storage_version_hash: String,
}

/// A subresource.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subresource {
    /// Its name.
    #[serde(rename = "subresource")]
    pub name: String,
    /// The kind of its objects.
    pub response_kind: ResponseKind,
    /// The supported verbs.
    pub verbs: Vec<String>,
}

/// The kind of a resource's objects.
#[derive(Clone, Debug, Serialize)]
pub struct ResponseKind {
    /// The group; empty, like the version, for a built-in resource that uses its own.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name.
    pub kind: String,
}

/// A custom resource kind as it is discovered.
#[derive(Clone, Copy, Debug)]
pub struct Custom<'a> {
    /// The kind, in one version.
    pub kind: &'a Kind,
    /// Whether its definition is being deleted. Its objects can still be written, but
    /// discovery no longer lists the write verbs.
    pub terminating: bool,
}

/// A discovery document, ready for any format.
#[derive(Clone, Debug)]
pub struct Document {
    type_name: &'static str,
    json: Vec<u8>,
}

impl Catalog {
    /// Builds the catalog of the built-in kinds that `filter` accepts.
    pub fn of(filter: &dyn Fn(&Kind) -> bool) -> Self {
        let mut catalog = Self::default();
        for (_, kind) in kinds().iter().filter(|(_, kind)| filter(kind)) {
            let version = catalog.version(&kind.group, &kind.version);
            version.resources.push(Resource::of(kind));
        }
        catalog
    }

    /// Adds custom resource kinds. New groups follow the others, ordered by name. In an
    /// existing group, new versions come first, as Kubernetes gives them the higher
    /// priority, and an existing version hides a new one of the same name.
    pub fn with<'a>(mut self, customs: impl IntoIterator<Item = Custom<'a>>) -> Self {
        for (name, mut versions) in by_group(customs) {
            match self.groups.iter_mut().find(|group| group.name == name) {
                Some(group) => {
                    let known = |version: &Version| {
                        let mut known = group.versions.iter();
                        known.any(|known| known.name == version.name)
                    };
                    versions.retain(|version| !known(version));
                    group.versions.splice(0..0, versions);
                }
                None => self.groups.push(Group {
                    name: name.to_owned(),
                    versions,
                }),
            }
        }
        self
    }

    /// Returns the version of the group; adds it at the end if it is missing.
    pub fn version(&mut self, group: &str, version: &str) -> &mut Version {
        let groups = &mut self.groups;
        let group = entry(groups, |found| found.name == group, || Group::new(group));
        let versions = &mut group.versions;
        entry(
            versions,
            |found| found.name == version,
            || Version::new(version),
        )
    }

    /// Builds the aggregated discovery document, version 2.
    pub fn aggregated(&self, root: Root) -> Document {
        let items = self.groups_under(root).collect();
        let list = AggregatedList {
            kind: "APIGroupDiscoveryList",
            api_version: "apidiscovery.k8s.io/v2",
            metadata: Empty {},
            items,
        };
        Document::new("api.apidiscovery.v2.APIGroupDiscoveryList", &list)
    }

    fn groups_under(&self, root: Root) -> impl Iterator<Item = &Group> {
        let core = root == Root::Api;
        let groups = self.groups.iter();
        groups.filter(move |group| group.name.is_empty() == core)
    }
}

impl Document {
    fn new(type_name: &'static str, content: &impl Serialize) -> Self {
        let mut json = serde_json::to_vec(content).expect("text and lists are always JSON");
        json.push(b'\n');
        Self { type_name, json }
    }

    /// Returns the document as it is sent: compact JSON with a newline.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Returns the document as it is sent, in JSON.
    pub fn into_json(self) -> Vec<u8> {
        self.json
    }

    /// Returns the document as an object of its type, including `kind` and `apiVersion`.
    pub fn object(&self) -> Object {
        serde_json::from_slice(&self.json).expect("the document was serialized in new")
    }

    /// Returns the type of the document, which determines its protobuf encoding.
    pub fn type_id(&self) -> TypeId {
        types()
            .find(self.type_name)
            .expect("the table has all discovery types")
    }
}

impl Group {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            versions: Vec::new(),
        }
    }
}

impl Version {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            resources: Vec::new(),
            freshness: Freshness::Current,
        }
    }
}

impl Resource {
    fn of(kind: &Kind) -> Self {
        Self {
            name: kind.resource.clone(),
            response_kind: ResponseKind::own(kind),
            scope: kind.scope,
            singular_resource: kind.singular.clone(),
            verbs: kind.verbs.clone(),
            short_names: kind.short_names.clone(),
            categories: kind.categories.clone(),
            subresources: kind
                .subresources
                .iter()
                .map(|sub| Subresource::of(kind, sub))
                .collect(),
            storage_version_hash: storage_version_hash(kind).to_owned(),
        }
    }

    fn custom(custom: &Custom<'_>) -> Self {
        let mut resource = Self::of(custom.kind);
        if custom.terminating {
            const WRITES: [&str; 3] = ["patch", "create", "update"];
            resource
                .verbs
                .retain(|verb| !WRITES.contains(&verb.as_str()));
        }
        resource
    }
}

impl Subresource {
    fn of(kind: &Kind, sub: &crate::Subresource) -> Self {
        let response_kind = match sub.version.is_empty() && sub.kind == kind.kind {
            true => ResponseKind::own(kind),
            false => ResponseKind {
                group: sub.group.clone(),
                version: sub.version.clone(),
                kind: sub.kind.clone(),
            },
        };
        Self {
            name: sub.name.clone(),
            response_kind,
            verbs: sub.verbs.clone(),
        }
    }
}

impl ResponseKind {
    /// Returns the kind that a resource is named after. Only custom resources repeat
    /// their group and version.
    fn own(kind: &Kind) -> Self {
        let repeated = |text: &String| match kind.is_custom() {
            true => text.clone(),
            false => String::new(),
        };
        Self {
            group: repeated(&kind.group),
            version: repeated(&kind.version),
            kind: kind.kind.clone(),
        }
    }
}

/// Returns the first 8 bytes of the SHA-256 of the storage kind's name, in base64; empty
/// for kinds that are not stored.
fn storage_version_hash(kind: &Kind) -> &str {
    if let Some(hash) = kind.custom_hash() {
        return hash;
    }
    if !kind.supports("watch") {
        return "";
    }
    let stored = kinds().get(kind.storage());
    let name = format!("{}/{}/{}", stored.group, stored.version, stored.kind);
    HASHES.get(name.as_str()).copied().unwrap_or_default()
}

/// Groups the custom versions by group, all in order.
fn by_group<'a>(customs: impl IntoIterator<Item = Custom<'a>>) -> BTreeMap<&'a str, Vec<Version>> {
    let mut groups: BTreeMap<&str, Vec<Version>> = BTreeMap::new();
    for custom in customs {
        let versions = groups.entry(&custom.kind.group).or_default();
        let name = &custom.kind.version;
        let version = entry(versions, |found| found.name == *name, || Version::new(name));
        version.resources.push(Resource::custom(&custom));
    }
    for versions in groups.values_mut() {
        versions.sort_by(|a, b| version_order(&a.name, &b.name));
        for version in versions {
            version.resources.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
    groups
}

/// Returns the first matching item, or appends a new one.
fn entry<T>(items: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let at = items.iter().position(is).unwrap_or(items.len());
    if at == items.len() {
        items.push(new());
    }
    &mut items[at]
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    items: Vec<&'a Group>,
}

#[derive(Serialize)]
struct Empty {}

fn metadata_of<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let mut metadata = Object::new();
    if !name.is_empty() {
        metadata.insert("name".to_owned(), Value::from(name));
    }
    metadata.serialize(serializer)
}

fn scope_name<S: Serializer>(scope: &Scope, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match scope {
        Scope::Namespaced => "Namespaced",
        Scope::Cluster => "Cluster",
    })
}

fn group_version(group: &Group, version: &Version) -> String {
    api_version(&group.name, &version.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_kind_has_a_hash() {
        for (_, kind) in kinds().iter() {
            let stored = kind.supports("watch");
            let hash = storage_version_hash(kind);
            assert_eq!(!hash.is_empty(), stored, "{}", kind.resource);
        }
    }

    #[test]
    fn groups_without_kinds_are_omitted() {
        let without = "flowcontrol.apiserver.k8s.io";
        let catalog = Catalog::of(&|kind| kind.group != without);
        let names: Vec<_> = catalog.groups.iter().map(|group| &group.name).collect();
        assert!(!names.iter().any(|name| *name == without));
        assert!(names.iter().any(|name| *name == "apps"));
    }
}
