//! Discovery documents for clients that do not support the aggregated one.

use serde::Serialize;

use super::{Catalog, Document, Group, Resource, Root, Subresource, Version, group_version};
use crate::Scope;

/// Builds `/api`: the versions of the core group, and the address of the server.
pub fn api_versions(server_address: &str) -> Document {
    let versions = ApiVersions {
        kind: "APIVersions",
        versions: ["v1"],
        server_address_by_client_cidrs: [ServerAddress {
            client_cidr: "0.0.0.0/0",
            server_address,
        }],
    };
    Document::new("apimachinery.pkg.apis.meta.v1.APIVersions", &versions)
}

impl Catalog {
    /// Builds `/apis`: all groups except the core group.
    pub fn api_group_list(&self) -> Document {
        let list = ApiGroupList {
            kind: "APIGroupList",
            api_version: "v1",
            groups: self.groups_under(Root::Apis).map(ApiGroup::of).collect(),
        };
        Document::new("apimachinery.pkg.apis.meta.v1.APIGroupList", &list)
    }

    /// Builds `/apis/{group}`.
    pub fn api_group(&self, name: &str) -> Option<Document> {
        let mut groups = self.groups_under(Root::Apis);
        let group = groups.find(|group| group.name == name)?;
        let document = ApiGroup {
            kind: Some("APIGroup"),
            api_version: Some("v1"),
            ..ApiGroup::of(group)
        };
        let name = "apimachinery.pkg.apis.meta.v1.APIGroup";
        Some(Document::new(name, &document))
    }

    /// Builds `/apis/{group}/{version}`, and `/api/v1` for the empty group.
    pub fn api_resource_list(&self, group: &str, version: &str) -> Option<Document> {
        let group = self.groups.iter().find(|found| found.name == group)?;
        let mut versions = group.versions.iter();
        let version = versions.find(|found| found.name == version)?;
        let list = ApiResourceList {
            kind: "APIResourceList",
            // The core group's document has no `apiVersion` upstream.
            api_version: (!group.name.is_empty()).then_some("v1"),
            group_version: group_version(group, version),
            resources: version.resources.iter().flat_map(entries).collect(),
        };
        let name = "apimachinery.pkg.apis.meta.v1.APIResourceList";
        Some(Document::new(name, &list))
    }
}

/// Returns a resource and its subresources as entries of one list.
fn entries(resource: &Resource) -> impl Iterator<Item = ApiResource<'_>> {
    let below = resource.subresources.iter();
    let below = below.map(|sub| ApiResource::below(resource, sub));
    std::iter::once(ApiResource::of(resource)).chain(below)
}

#[derive(Serialize)]
struct ApiVersions<'a> {
    kind: &'static str,
    versions: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_address_by_client_cidrs: [ServerAddress<'a>; 1],
}

#[derive(Serialize)]
struct ServerAddress<'a> {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    #[serde(rename = "serverAddress")]
    server_address: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: &'a str,
    versions: Vec<GroupVersion<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred_version: Option<GroupVersion<'a>>,
}

impl<'a> ApiGroup<'a> {
    fn of(group: &'a Group) -> Self {
        let versions = group.versions.iter();
        let preferred = group.versions.first();
        Self {
            kind: None,
            api_version: None,
            name: &group.name,
            versions: versions
                .map(|version| GroupVersion::of(group, version))
                .collect(),
            preferred_version: preferred.map(|version| GroupVersion::of(group, version)),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion<'a> {
    group_version: String,
    version: &'a str,
}

impl<'a> GroupVersion<'a> {
    fn of(group: &Group, version: &'a Version) -> Self {
        Self {
            group_version: group_version(group, version),
            version: &version.name,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceList<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ApiResource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource<'a> {
    name: String,
    singular_name: &'a str,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    kind: &'a str,
    verbs: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    storage_version_hash: &'a str,
}

impl<'a> ApiResource<'a> {
    fn of(resource: &'a Resource) -> Self {
        // The kind's own group is omitted here, also for custom resources.
        Self {
            name: resource.name.clone(),
            singular_name: &resource.singular_resource,
            namespaced: resource.scope == Scope::Namespaced,
            group: "",
            version: "",
            kind: &resource.response_kind.kind,
            verbs: &resource.verbs,
            short_names: &resource.short_names,
            categories: &resource.categories,
            storage_version_hash: &resource.storage_version_hash,
        }
    }

    fn below(resource: &'a Resource, sub: &'a Subresource) -> Self {
        let (own, of) = (&resource.response_kind, &sub.response_kind);
        let foreign = (&own.group, &own.kind) != (&of.group, &of.kind);
        let foreign = foreign.then_some(&sub.response_kind);
        Self {
            name: format!("{}/{}", resource.name, sub.name),
            singular_name: "",
            namespaced: resource.scope == Scope::Namespaced,
            group: foreign.map_or("", |kind| &kind.group),
            version: foreign.map_or("", |kind| &kind.version),
            kind: &sub.response_kind.kind,
            verbs: &sub.verbs,
            short_names: &[],
            categories: &[],
            storage_version_hash: "",
        }
    }
}
