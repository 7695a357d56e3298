//! The installed definitions, without their schemas: those of all kinds together have hundreds of
//! megabytes.

use std::collections::BTreeSet;

use kube::Client;
use serde::Deserialize;

use super::Error;
use super::api::{self, List, Metadata};
use crate::manifests::PUBLISHED;
use crate::table;

/// The path of CustomResourceDefinitions.
const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The number of definitions in a page. The largest one has more than a megabyte.
const PAGE_SIZE: u32 = 16;
/// The end of the names of versions that objects are stored in.
const STORAGE: &str = "storage";

/// An installed definition.
#[derive(Clone, Debug)]
pub struct Definition {
    pub(crate) metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize)]
struct Stored {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
struct Spec {
    group: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Deserialize)]
struct Names {
    kind: String,
    plural: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    stored_versions: Vec<String>,
}

impl From<Stored> for Definition {
    fn from(stored: Stored) -> Self {
        Self {
            metadata: stored.metadata,
            spec: stored.spec,
            status: stored.status,
        }
    }
}

impl Definition {
    /// Returns the name, such as `virtualnetworks.network.azure.com`.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Returns the group.
    pub fn group(&self) -> &str {
        &self.spec.group
    }

    /// Returns the kind.
    pub fn kind(&self) -> &str {
        &self.spec.names.kind
    }

    /// Returns the version that objects are stored in.
    pub fn storage_version(&self) -> &str {
        let storage = self.spec.versions.iter().find(|version| version.storage);
        storage.map_or("", |version| &version.name)
    }

    /// Returns the versions that objects may be stored in.
    pub fn stored_versions(&self) -> &[String] {
        &self.status.stored_versions
    }

    /// Returns whether objects can be stored in the storage version only.
    pub fn is_trimmed(&self) -> bool {
        self.stored_versions() == [self.storage_version()]
    }

    /// Returns whether there is a version of this name.
    pub fn has(&self, version: &str) -> bool {
        self.spec.versions.iter().any(|it| it.name == version)
    }

    /// Returns the names of all versions.
    pub fn versions(&self) -> impl Iterator<Item = &str> {
        self.spec.versions.iter().map(|version| &*version.name)
    }

    /// Returns the names of the served versions.
    pub fn served_versions(&self) -> impl Iterator<Item = &str> {
        let served = self.spec.versions.iter().filter(|version| version.served);
        served.map(|version| &*version.name)
    }

    /// Returns the version in which objects are read and written back: the storage version, so
    /// that conversion leaves the version alone in which a user wrote them.
    pub(crate) fn transfer_version(&self) -> Option<&str> {
        let storage = self.storage_version();
        let storages = || self.served_versions().filter(|it| it.ends_with(STORAGE));
        let mut served = self.served_versions().filter(|name| *name == storage);
        let served = served.next().or_else(|| storages().last());
        served.or_else(|| self.served_versions().last())
    }

    /// Returns whether an Insula serves the definition in the spaces of all tenants, where objects
    /// are stored in the same versions as in the system's own space.
    pub fn is_published(&self) -> bool {
        let published = self.metadata.annotations.get(PUBLISHED);
        published.is_some_and(|published| published == "true")
    }

    /// Returns the path of all objects, in the version of transfers: those of all namespaces, and
    /// of all tenants too if the definition is published to them.
    pub(crate) fn objects_path(&self) -> String {
        let version = self.transfer_version().unwrap_or_default();
        let spaces = match self.is_published() {
            true => "tenants/all/",
            false => "",
        };
        format!(
            "/apis/{}/{version}/{spaces}{}",
            self.group(),
            self.spec.names.plural
        )
    }

    /// Returns the path of an object in the space of a tenant, or in the system's own.
    pub(crate) fn object_path(
        &self,
        tenant: Option<&str>,
        namespace: Option<&str>,
        name: &str,
    ) -> String {
        let version = self.transfer_version().unwrap_or_default();
        let mut path = format!("/apis/{}/{version}", self.group());
        for (collection, name) in [("tenants", tenant), ("namespaces", namespace)] {
            if let Some(name) = name {
                path.push_str(&format!("/{collection}/{name}"));
            }
        }
        format!("{path}/{}/{name}", self.spec.names.plural)
    }

    /// Returns the path of the definition's status.
    pub(crate) fn status_path(&self) -> String {
        format!("{PATH}/{}/status", self.name())
    }

    /// Returns the kind of the table.
    pub(crate) fn known(&self) -> Option<&'static table::Kind> {
        table::find(self.group(), self.kind())
    }
}

/// Reads a definition.
///
/// # Errors
///
/// If it does not exist, or cannot be read.
pub async fn read(client: &Client, name: &str) -> Result<Definition, Error> {
    let read: Result<Stored, _> = api::get(client, &format!("{PATH}/{name}")).await;
    read.map(Definition::from).map_err(|error| match error {
        error if api::status_code(&error) == Some(404) => Error::NoDefinition(name.to_owned()),
        error => Error::new(format!("read definition {name}"), error),
    })
}

/// Reads the definitions with these names, or all those in groups of the table if there are no
/// names. The result is in the order of names.
///
/// # Errors
///
/// If one does not exist, or they cannot be read.
pub async fn installed(client: &Client, names: &[String]) -> Result<Vec<Definition>, Error> {
    let mut found = Vec::new();
    if names.is_empty() {
        let groups: BTreeSet<_> = table::kinds().iter().map(table::Kind::group).collect();
        let list = List {
            page_size: PAGE_SIZE,
            ..List::new(PATH)
        };
        let see = |stored: Stored| {
            if groups.contains(&*stored.spec.group) {
                found.push(Definition::from(stored));
            }
        };
        let listed = list.each(client, see).await;
        listed.map_err(|error| Error::new("list definitions", error))?;
    } else {
        for name in names {
            found.push(read(client, name).await?);
        }
    }
    found.sort_by(|one, other| one.name().cmp(other.name()));
    found.dedup_by(|one, other| one.name() == other.name());
    Ok(found)
}

/// Returns a definition for tests, with versions of which the last one is stored.
#[cfg(test)]
pub(crate) fn sample(kind: &table::Kind, versions: &[&str], stored: &[&str]) -> Definition {
    let last = versions.last().copied().unwrap_or_default();
    let versions = versions
        .iter()
        .map(|name| serde_json::json!({"name": name, "served": true, "storage": *name == last}));
    let stored: Stored = serde_json::from_value(serde_json::json!({
        "metadata": {
            "name": format!("{}.{}", kind.plural(), kind.group()),
            "uid": "u", "generation": 1, "resourceVersion": "5",
        },
        "spec": {
            "group": kind.group(),
            "names": {"kind": kind.kind(), "plural": kind.plural()},
            "versions": versions.collect::<Vec<_>>(),
        },
        "status": {"storedVersions": stored},
    }))
    .unwrap();
    stored.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_transferred_in_the_storage_version() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let mut definition = sample(
            kind,
            &["v1", "v1storage", "v2", "v2storage"],
            &["v1storage"],
        );
        assert_eq!(definition.storage_version(), "v2storage");
        assert_eq!(definition.transfer_version(), Some("v2storage"));
        assert!(!definition.is_trimmed());
        let path = "/apis/network.azure.com/v2storage/namespaces/a/virtualnetworks/b";
        assert_eq!(definition.object_path(None, Some("a"), "b"), path);
        assert_eq!(
            definition.objects_path(),
            "/apis/network.azure.com/v2storage/virtualnetworks"
        );
        // A version that is not served cannot be read.
        definition.spec.versions[3].served = false;
        assert_eq!(definition.transfer_version(), Some("v1storage"));
        definition.spec.versions[1].served = false;
        assert_eq!(definition.transfer_version(), Some("v2"));
    }

    #[test]
    fn objects_of_a_published_definition_are_those_of_all_tenants() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let mut definition = sample(kind, &["v1"], &["v1"]);
        let annotations = &mut definition.metadata.annotations;
        annotations.insert(PUBLISHED.to_owned(), "true".to_owned());
        let all = "/apis/network.azure.com/v1/tenants/all/virtualnetworks";
        assert_eq!(definition.objects_path(), all);
        let path = "/apis/network.azure.com/v1/tenants/t/namespaces/a/virtualnetworks/b";
        assert_eq!(definition.object_path(Some("t"), Some("a"), "b"), path);
    }
}
