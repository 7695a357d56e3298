//! Kinds that users define.

use std::collections::BTreeMap;

use super::{
    Column, Kind, Propagation, Scope, Subresource, api_version, unknown_kind, unknown_type,
};
use crate::types::types;

/// A kind that a user defined, in one version.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// The plural in paths.
    pub resource: String,
    /// The singular that kubectl takes.
    pub singular: String,
    /// The name in objects.
    pub kind: String,
    /// The name in lists.
    pub list_kind: String,
    /// Whether its objects live in namespaces.
    pub scope: Scope,
    /// The short names that kubectl takes.
    pub short_names: Vec<String>,
    /// The categories that kubectl takes.
    pub categories: Vec<String>,
    /// Whether the status is written apart from the rest.
    pub status: bool,
    /// Whether it can be scaled.
    pub scale: bool,
    /// The fields that a field selector may name beside those of the metadata.
    pub selectable: Vec<String>,
    /// The columns of its table, the name included.
    pub columns: Vec<Column>,
    /// The hash of the version in which its objects are stored; empty if that is not
    /// served.
    pub storage_version_hash: String,
}

impl Kind {
    /// A kind that a user defined.
    ///
    /// Its type is that of every object, metadata and nothing else, as the table of types
    /// has nothing better: whoever reads or writes whole objects of it goes by its schema
    /// instead. It has no place in the table, so it is not to be asked for its storage.
    pub fn custom(of: CustomKind) -> Self {
        let type_name = "apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";
        Self {
            verbs: texts(&VERBS),
            subresources: subresources(&of),
            create_on_update: false,
            unconditional_update: false,
            delete_returns_object: false,
            reset_fields: resets(&of),
            default_propagation: Propagation::Background,
            generation: true,
            system_only: false,
            field_selectors: selectors(&of),
            type_id: types().find(type_name).unwrap_or_else(unknown_type),
            type_name: type_name.to_owned(),
            list_kind: of.list_kind,
            api_version: api_version(&of.group, &of.version),
            storage: unknown_kind(),
            custom: Some(of.storage_version_hash),
            group: of.group,
            version: of.version,
            resource: of.resource,
            kind: of.kind,
            scope: of.scope,
            singular: of.singular,
            short_names: of.short_names,
            categories: of.categories,
            columns: of.columns,
        }
    }
}

/// The order is that of Kubernetes for custom resources, which is not that of its own.
const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

fn subresources(of: &CustomKind) -> Vec<Subresource> {
    let below = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: texts(&["get", "patch", "update"]),
    };
    let status = of.status.then(|| below("status", "", "", &of.kind));
    let scale = of
        .scale
        .then(|| below("scale", "autoscaling", "v1", "Scale"));
    status.into_iter().chain(scale).collect()
}

fn resets(of: &CustomKind) -> BTreeMap<String, Vec<String>> {
    if !of.status {
        return BTreeMap::new();
    }
    BTreeMap::from([
        ("main".to_owned(), texts(&["status"])),
        ("status".to_owned(), texts(&["metadata", "spec"])),
    ])
}

fn selectors(of: &CustomKind) -> Vec<String> {
    let mut fields = texts(&["metadata.name"]);
    if of.scope == Scope::Namespaced {
        fields.push("metadata.namespace".to_owned());
    }
    fields.extend(of.selectable.iter().cloned());
    fields
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
