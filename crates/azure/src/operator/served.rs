//! The kinds and versions that the API server has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use insula_operator::key::GroupKind;
use insula_operator::provider::WatchedKind;
use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};

use crate::table::{self, Kind};

/// The versions of each kind that a server has, by group and kind.
type Served = BTreeMap<(String, String), BTreeSet<String>>;

/// The kinds of the table that an API server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKinds(BTreeMap<(String, String), ServedKind>);

/// A kind that an API server has.
#[derive(Clone, Debug)]
pub struct ServedKind {
    /// What is known about it.
    pub kind: &'static Kind,
    versions: BTreeSet<String>,
}

impl PartialEq for ServedKind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.kind, other.kind) && self.versions == other.versions
    }
}

impl Eq for ServedKind {}

/// A definition that is older than the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outdated {
    /// The name of the definition.
    pub definition: String,
    /// The version that the operator needs.
    pub needed: String,
    /// The versions that the server has.
    pub served: Vec<String>,
}

impl fmt::Display for Outdated {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}: this operator needs version {}, and the cluster serves {}: have the cluster's \
             administrator apply newer definitions first, or run an older operator",
            self.definition,
            self.needed,
            self.served.join(", ")
        )
    }
}

impl ServedKinds {
    /// Asks the server which kinds it has, in one request.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub async fn discover(client: &Client) -> Result<Self, kube::Error> {
        let mut served = Served::new();
        for group in client.list_api_groups_aggregated().await?.items {
            let name = group.metadata.and_then(|metadata| metadata.name);
            let name = name.unwrap_or_default();
            for version in group.versions {
                let kinds = version.resources.into_iter().filter_map(|resource| {
                    let kind = resource.response_kind?.kind?;
                    Some((name.clone(), kind))
                });
                for kind in kinds {
                    let versions = served.entry(kind).or_default();
                    versions.extend(version.version.clone());
                }
            }
        }
        Ok(Self::of(&served))
    }

    fn of(served: &Served) -> Self {
        let known = served.iter().filter_map(|((group, kind), versions)| {
            let known = table::find(group, kind)?;
            let of_table = versions.iter().filter(|name| known.version(name).is_some());
            let served = ServedKind {
                kind: known,
                versions: of_table.cloned().collect(),
            };
            Some(((group.clone(), kind.clone()), served))
        });
        Self(known.collect())
    }

    /// Returns a kind, if the server has it.
    pub fn find(&self, group: &str, kind: &str) -> Option<&ServedKind> {
        self.0.get(&(group.to_owned(), kind.to_owned()))
    }

    /// Returns the kind of a key.
    pub(super) fn of_key(&self, kind: &GroupKind) -> Option<&ServedKind> {
        self.find(&kind.group, &kind.kind)
    }

    /// Returns whether the server has none of the kinds.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all kinds.
    pub fn iter(&self) -> impl Iterator<Item = &ServedKind> {
        self.0.values()
    }

    /// Returns the definitions that are older than the operator: it could not read objects that
    /// other operators of its version have written.
    pub fn outdated(&self) -> Vec<Outdated> {
        let outdated = self.iter().filter(|served| !served.is_current());
        outdated
            .map(|served| Outdated {
                definition: format!("{}.{}", served.kind.plural(), served.kind.group()),
                needed: served.kind.storage_version().to_owned(),
                served: served.versions.iter().cloned().collect(),
            })
            .collect()
    }

    /// Returns the kinds to watch.
    pub(super) fn watched(&self) -> Vec<WatchedKind> {
        let resources = self.iter().map(ServedKind::watched);
        resources.map(WatchedKind::reconciled_resource).collect()
    }
}

impl ServedKind {
    /// Returns whether the server has the version that this operator stores.
    fn is_current(&self) -> bool {
        self.versions.contains(self.kind.storage_version())
    }

    /// Returns a version that the server has: the one that is stored, if possible.
    pub(crate) fn any_version(&self) -> Option<&str> {
        let stored = self.kind.storage_version();
        match self.is_current() {
            true => Some(stored),
            false => self.versions.last().map(String::as_str),
        }
    }

    /// Returns the resource that is watched: objects are read in the version that is stored, which
    /// says in which version a user wrote them.
    pub(super) fn watched(&self) -> ApiResource {
        self.resource(self.kind.storage_version())
    }

    /// Returns the resource in a version; none if the server does not have it.
    pub(super) fn resource_in(&self, version: &str) -> Option<ApiResource> {
        let is_served = self.versions.contains(version);
        is_served.then(|| self.resource(version))
    }

    fn resource(&self, version: &str) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.kind.group(), version, self.kind.kind());
        ApiResource::from_gvk_with_plural(&kind, self.kind.plural())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(kinds: &[(&str, &str, &[&str])]) -> ServedKinds {
        let kinds = kinds.iter().map(|(group, kind, versions)| {
            let versions = versions.iter().map(|version| (*version).to_owned());
            let key = ((*group).to_owned(), (*kind).to_owned());
            (key, versions.collect())
        });
        ServedKinds::of(&kinds.collect())
    }

    const GROUP: &str = "resources.azure.com";

    #[test]
    fn only_kinds_of_the_table_are_served() {
        let kind = table::find(GROUP, "ResourceGroup").unwrap();
        let version = kind.storage_version();
        let served = served(&[
            (GROUP, "ResourceGroup", &[version, "v1unknown"]),
            (GROUP, "Nothing", &["v1"]),
            ("apps", "Deployment", &["v1"]),
        ]);
        assert_eq!(served.iter().count(), 1);
        let found = served.find(GROUP, "ResourceGroup").unwrap();
        assert_eq!(found.watched().plural, "resourcegroups");
        assert_eq!(found.watched().version, version);
        assert_eq!(found.resource_in("v1unknown"), None);
        assert_eq!(served.outdated(), []);
    }

    #[test]
    fn r18_definition_without_the_stored_version_is_outdated() {
        let older = ["v1api20200601"];
        let served = served(&[(GROUP, "ResourceGroup", &older)]);
        let outdated = served.outdated();
        let needed = table::find(GROUP, "ResourceGroup").unwrap();
        assert_eq!(outdated.len(), 1);
        let line = outdated[0].to_string();
        assert!(
            line.starts_with("resourcegroups.resources.azure.com: "),
            "{line}"
        );
        assert!(line.contains(needed.storage_version()), "{line}");
        assert!(line.contains("the cluster serves v1api20200601"), "{line}");
    }
}
