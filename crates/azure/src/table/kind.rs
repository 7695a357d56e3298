//! Kinds and their versions.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, de};

use super::behaviour::{Behaviour, ErrorRule, ImportRule};
use super::export::Exports;
use super::shape::{Shape, ShapeRef};

/// The end of the names of versions that objects are stored in.
const STORAGE: &str = "storage";

/// A kind of Azure Service Operator.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kind {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) plural: String,
    #[serde(rename = "arm")]
    pub(super) arm_type: String,
    #[serde(default)]
    pub(super) owner: Owner,
    #[serde(default)]
    pub(super) scope: Scope,
    #[serde(rename = "azureName")]
    pub(super) fixed_name: Option<String>,
    #[serde(default)]
    pub(super) no_delete: bool,
    #[serde(default)]
    pub(super) head: bool,
    pub(super) storage: String,
    pub(super) versions: Vec<Version>,
    #[serde(flatten)]
    pub(super) exports: Exports,
    #[serde(default)]
    pub(super) behaviours: Vec<Behaviour>,
    #[serde(default)]
    pub(super) errors: Vec<ErrorRule>,
    #[serde(default)]
    pub(super) not_imported: Vec<ImportRule>,
    #[serde(skip)]
    pub(super) shapes: Arc<[Shape]>,
}

impl Kind {
    /// The API group, such as `network.azure.com`.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The name of the kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The name of the resource in URLs of the API server.
    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// The type in ARM, such as `Microsoft.Network/virtualNetworks/subnets`.
    pub fn arm_type(&self) -> &str {
        &self.arm_type
    }

    /// The kind of the owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// What the ARM id is relative to.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The name in Azure of a kind that has only one object for each owner. Such kinds have no
    /// field `azureName`.
    pub fn fixed_name(&self) -> Option<&str> {
        self.fixed_name.as_deref()
    }

    /// Tells whether ARM has DELETE for the type.
    pub fn can_delete(&self) -> bool {
        !self.no_delete
    }

    /// Tells whether ARM has HEAD for the type.
    pub fn has_head(&self) -> bool {
        self.head
    }

    /// The name of the version that objects are stored in.
    pub fn storage_version(&self) -> &str {
        &self.storage
    }

    /// The versions, oldest first.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Returns a version by any of its names: its own, that of its twin, or one of the two with
    /// the end `storage`.
    pub fn version(&self, name: &str) -> Option<&Version> {
        let served = name.strip_suffix(STORAGE).unwrap_or(name);
        self.versions.iter().find(|version| version.is(served))
    }

    /// The rules of a version's spec.
    pub fn spec(&self, version: &Version) -> ShapeRef<'_> {
        ShapeRef::root(&self.shapes, version.spec)
    }

    /// The rules of a version's status.
    pub fn status(&self, version: &Version) -> ShapeRef<'_> {
        ShapeRef::root(&self.shapes, version.status)
    }

    /// Values that the operator writes into Secrets and ConfigMaps.
    pub fn exports(&self) -> &Exports {
        &self.exports
    }

    /// What a reconciliation does besides sending the spec.
    pub fn behaviours(&self) -> &[Behaviour] {
        &self.behaviours
    }

    /// Errors of ARM that are classified otherwise than those of other kinds.
    pub fn errors(&self) -> &[ErrorRule] {
        &self.errors
    }

    /// Resources in Azure that have no use as custom resources.
    pub fn not_imported(&self) -> &[ImportRule] {
        &self.not_imported
    }

    /// Group and kind, which the table is in the order of.
    pub(super) fn name(&self) -> (&str, &str) {
        (&self.group, &self.kind)
    }

    pub(super) fn share(&mut self, shapes: &Arc<[Shape]>) {
        self.shapes = Arc::clone(shapes);
    }
}

/// A version of a kind.
#[derive(Clone, Debug, Deserialize)]
pub struct Version {
    pub(super) name: String,
    #[serde(default)]
    pub(super) also: Vec<String>,
    #[serde(default)]
    pub(super) api: Option<String>,
    pub(super) spec: Option<u32>,
    pub(super) status: Option<u32>,
}

impl Version {
    /// The name of the version, such as `v20250301`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All names of the version: its own, that of its twin (`v1api…`), and both with the end
    /// `storage`.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        let served = std::iter::once(&self.name).chain(&self.also);
        served.flat_map(|name| [name.clone(), format!("{name}{STORAGE}")])
    }

    /// The api-version of requests to ARM, such as `2025-03-01`.
    pub fn api_version(&self) -> String {
        let named = self.api.clone();
        named
            .or_else(|| api_version(&self.name))
            .unwrap_or_default()
    }

    fn is(&self, name: &str) -> bool {
        self.name == name || self.also.iter().any(|also| also == name)
    }
}

/// Returns the api-version of ARM that the name of a version stands for: `2023-01-01-preview` of
/// `v20230101preview`, `v1api20230101preview` and `v1api20230101previewstorage`.
pub fn api_version(name: &str) -> Option<String> {
    let served = name.strip_suffix(STORAGE).unwrap_or(name);
    let dated = served.strip_prefix("v1api");
    let dated = dated.or_else(|| served.strip_prefix('v'))?;
    let (date, preview) = match dated.strip_suffix("preview") {
        Some(date) => (date, "-preview"),
        None => (dated, ""),
    };
    if date.len() != 8 || !date.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, month, day) = (&date[..4], &date[4..6], &date[6..]);
    Some(format!("{year}-{month}-{day}{preview}"))
}

/// The kind of the owner of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// Resources without an owner.
    #[default]
    None,
    /// Resources of any kind, named with group and kind in `spec.owner`.
    Any,
    /// One kind.
    Kind {
        /// The group of the owner.
        group: String,
        /// The kind of the owner.
        kind: String,
    },
}

impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "any" {
            return Ok(Self::Any);
        }
        let parts = text.split_once('/');
        let (group, kind) = parts.ok_or_else(|| de::Error::custom("an owner is GROUP/KIND"))?;
        Ok(Self::Kind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        })
    }
}

/// What the ARM id of a resource is relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// A resource group, or a resource in one.
    #[default]
    ResourceGroup,
    /// Any other resource.
    Extension,
    /// The subscription.
    Location,
    /// The tenant of Entra.
    Tenant,
}
