//! The CustomResourceDefinitions. They are data, in `data/crds`; schemas that several of them share
//! are in `data/parts`.
//!
//! They admit what upstream's definitions and webhooks admit. The differences:
//!
//! | field | here | reason |
//! |---|---|---|
//! | `identityRef` | new | hosts of other namespaces and clusters |
//! | `spec` of every kind | required | objects without one cannot be read |
//! | `controlPlaneEndpoint` of clusters; `image`, `customDeploy` of machines | optional | manifests that only name an identity apply; the operator reports the absence |
//! | `cloudProviderEnabled` of clusters | no default | missing means false; `noCloudProvider` of `v1beta1` counts if it is missing |
//! | names of objects | have the pattern of names | they become parts of URLs |
//! | requirements of host selectors | unique by key and operator | a key may have a lower and an upper limit |
//! | VLANs | unique by id | two links may have the same VLAN |
//! | `macAddress` and `parameters` of bonds, `macAddress` of VLANs | optional | neither is needed to render them |
//! | `clusterName` of data templates in `v1beta1` | optional | it has no effect, and `v1beta2` objects have none |
//! | `type`, `retryLimit` and `timeout` of remediations in `v1beta1` | have defaults | as in `v1beta2` |
//! | limits of `v1beta2` | also in `v1beta1` | what is stored can be written in both versions |

use insula_operator::crds::Definitions;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::names::{API_VERSION, GROUP};
use crate::webhooks;

const DEFINITIONS: Definitions = Definitions {
    kinds: &KINDS,
    parts: &PARTS,
};

const KINDS: [&str; 12] = [
    include_str!("../data/crds/metal3clusters.yaml"),
    include_str!("../data/crds/metal3clustertemplates.yaml"),
    include_str!("../data/crds/metal3machines.yaml"),
    include_str!("../data/crds/metal3machinetemplates.yaml"),
    include_str!("../data/crds/metal3datatemplates.yaml"),
    include_str!("../data/crds/metal3dataclaims.yaml"),
    include_str!("../data/crds/metal3datas.yaml"),
    include_str!("../data/crds/metal3remediations.yaml"),
    include_str!("../data/crds/metal3remediationtemplates.yaml"),
    include_str!("../data/crds/ippools.yaml"),
    include_str!("../data/crds/ipclaims.yaml"),
    include_str!("../data/crds/ipaddresses.yaml"),
];

/// A part of the folder `data/parts`.
macro_rules! part {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../data/parts/", $name, ".yaml")),
        )
    };
}

const PARTS: [(&str, &str); 51] = [
    part!("address"),
    part!("addresses"),
    part!("annotation"),
    part!("clusterspec"),
    part!("clusterspec-common"),
    part!("clusterspec-v1beta1"),
    part!("conditions-v1beta1"),
    part!("deprecated"),
    part!("dns"),
    part!("domain"),
    part!("domains"),
    part!("domains-v1beta1"),
    part!("error"),
    part!("identity"),
    part!("initialization"),
    part!("key"),
    part!("keyed"),
    part!("keyed-pools"),
    part!("link"),
    part!("machinespec"),
    part!("machinespec-common"),
    part!("machinespec-v1beta1"),
    part!("metadata"),
    part!("metadata-common"),
    part!("metadata-v1beta1"),
    part!("name"),
    part!("name-v1beta1"),
    part!("network"),
    part!("network4"),
    part!("network6"),
    part!("networkdata"),
    part!("networkdata-common"),
    part!("networkdata-v1beta1"),
    part!("newer-conditions"),
    part!("object"),
    part!("pool"),
    part!("prefix"),
    part!("reference"),
    part!("reference-v1beta1"),
    part!("remediation-status"),
    part!("remediation-status-v1beta1"),
    part!("secret"),
    part!("secret-v1beta1"),
    part!("services"),
    part!("static4"),
    part!("static6"),
    part!("strategy"),
    part!("strategy-common"),
    part!("strategy-v1beta1"),
    part!("template"),
    part!("time"),
];

/// Returns all definitions.
pub fn all() -> Vec<CustomResourceDefinition> {
    with_conversion(DEFINITIONS.all())
}

/// Returns all definitions, published to every tenant of an Insula.
pub fn published() -> Vec<CustomResourceDefinition> {
    with_conversion(DEFINITIONS.published())
}

/// Adds the conversion webhook, and the warning of the older version, to kinds with two versions.
fn with_conversion(
    mut definitions: Vec<CustomResourceDefinition>,
) -> Vec<CustomResourceDefinition> {
    let infrastructure = definitions
        .iter_mut()
        .map(|definition| &mut definition.spec);
    for spec in infrastructure.filter(|spec| spec.group == GROUP) {
        spec.conversion = Some(webhooks::conversion());
        for version in spec.versions.iter_mut().filter(|version| !version.storage) {
            let kind = &spec.names.kind;
            version.deprecated = Some(true);
            version.deprecation_warning = Some(format!(
                "{GROUP}/{} {kind} is deprecated; use {API_VERSION}",
                version.name
            ));
        }
    }
    definitions
}

#[cfg(test)]
mod tests;
