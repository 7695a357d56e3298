//! Kinds of custom resources.

use std::collections::BTreeMap;

use super::{
    Column, Kind, Propagation, Scope, Subresource, api_version, unknown_kind, unknown_type,
};
use crate::types::types;

/// A custom resource kind in one version.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name in paths.
    pub resource: String,
    /// The singular name for kubectl.
    pub singular: String,
    /// The name in objects.
    pub kind: String,
    /// The kind of lists.
    pub list_kind: String,
    /// Whether its objects are namespaced.
    pub scope: Scope,
    /// The short names for kubectl.
    pub short_names: Vec<String>,
    /// The categories for kubectl.
    pub categories: Vec<String>,
    /// Whether it has a status subresource.
    pub status: bool,
    /// Whether it has a scale subresource.
    pub scale: bool,
    /// The fields that field selectors support in addition to metadata.
    pub selectable: Vec<String>,
    /// The columns of its table, including the name.
    pub columns: Vec<Column>,
    /// The storage version hash; empty if the storage version is not served.
    pub storage_version_hash: String,
}

impl Kind {
    /// Builds the kind of a custom resource.
    ///
    /// Its type is metadata only, since the table of types has no better one: whole
    /// objects are read and written by their schema instead. It has no index in the
    /// table, so callers must not use [`Kind::storage`].
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

/// The order that Kubernetes uses for custom resources, which differs from its built-in
/// kinds.
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
