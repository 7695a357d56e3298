//! Values that the operator writes into Secrets and ConfigMaps.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::path::Path;

/// The exports of a kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exports {
    /// The requests that values are taken from.
    #[serde(default)]
    pub calls: Vec<Call>,
    /// The fields of `operatorSpec.secrets`.
    #[serde(default)]
    pub secrets: BTreeMap<String, Source>,
    /// The fields of `operatorSpec.configMaps`.
    #[serde(default)]
    pub config_maps: BTreeMap<String, Source>,
}

/// A request to ARM that returns values to export.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// What a POST appends to the ARM id.
    pub post: Option<String>,
    /// What a GET appends to the ARM id, if the call is not a POST.
    pub get: Option<String>,
    /// Where the status has the ARM id, if it is not the resource's own.
    pub id: Option<Path>,
    /// The api-version.
    #[serde(rename = "api")]
    pub api_version: String,
}

/// Where the value of an export comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Source {
    /// The response of a call.
    Call {
        /// The index of the call in [`Exports::calls`].
        call: usize,
        /// The value in the response.
        path: Path,
        /// The encoding of the value in the response.
        decode: Option<Encoding>,
    },
    /// The status of the custom resource.
    Status {
        /// The value in the status.
        status: Path,
    },
    /// A part of the ARM id.
    Id {
        /// The part.
        id: IdPart,
    },
    /// Nothing: Azure Service Operator has the field and never writes it.
    Nothing {
        /// Always true.
        none: bool,
    },
}

/// The encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Base64.
    Base64,
}

/// A part of an ARM id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdPart {
    /// The subscription.
    Subscription,
}
