//! `BareMetalHost`, as a client of the Bare Metal Operator sees it: the fields that are read or
//! written, and the rest of the status, which a move copies.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, SecretReference};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A host.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "BareMetalHost",
    plural = "baremetalhosts",
    namespaced,
    status = "BareMetalHostStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostSpec {
    /// Whether it is to be switched on.
    #[serde(default)]
    pub online: bool,
    /// The object that uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ObjectReference>,
    /// The image that is written to its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<HostImage>,
    /// Another way to deploy it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<HostCustomDeploy>,
    /// The Secret with the user data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,
    /// The Secret with the metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,
    /// The Secret with the network data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,
    /// How disks are cleaned: `metadata`, which is the default, or `disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automated_cleaning_mode: Option<String>,
    /// Its management controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmc: Option<HostController>,
    /// The MAC address that it boots from.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "bootMACAddress"
    )]
    pub boot_mac_address: Option<String>,
    /// Whether it must not be switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_power_off: Option<bool>,
    /// Whether it was deployed by something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_provisioned: Option<bool>,
}

/// An image of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostImage {
    /// Its location.
    pub url: String,
    /// Its checksum, or the location of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// `md5`, `sha256` or `sha512`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum_type: Option<String>,
    /// `raw`, `qcow2`, `vdi`, `vmdk` or `live-iso`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// A way to deploy a host without an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCustomDeploy {
    /// The name of the deploy step.
    pub method: String,
}

/// The management controller of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostController {
    /// Its address.
    #[serde(default)]
    pub address: String,
    /// The name of the Secret with its credentials.
    #[serde(default)]
    pub credentials_name: String,
}

/// The status of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostStatus {
    /// Its provisioning.
    #[serde(default)]
    pub provisioning: HostProvisioning,
    /// What went wrong last.
    #[serde(default)]
    pub error_message: String,
    /// The step at which it went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// `OK`, `discovered`, `error`, `delayed`, `detached`, `servicing` or empty.
    #[serde(default)]
    pub operational_status: String,
    /// Whether it is switched on.
    #[serde(default)]
    pub powered_on: bool,
    /// Its hardware, if it was inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HostHardware>,
    /// All other fields.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The provisioning of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostProvisioning {
    /// The state, as the Bare Metal Operator writes it.
    #[serde(default)]
    pub state: String,
    /// All other fields.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The hardware of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostHardware {
    /// The network interfaces.
    #[serde(default)]
    pub nics: Option<Vec<HostInterface>>,
    /// The name that it had when it was inspected.
    #[serde(default)]
    pub hostname: String,
    /// All other fields.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A network interface of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostInterface {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its MAC address.
    #[serde(default)]
    pub mac: String,
    /// An address that it has.
    #[serde(default)]
    pub ip: String,
    /// All other fields.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The state of a host's provisioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProvisioningState {
    /// There is none yet.
    None,
    /// It has no management controller.
    Unmanaged,
    /// Its management controller is being checked.
    Registering,
    /// A state of former versions.
    MatchProfile,
    /// It is being configured.
    Preparing,
    /// It can be provisioned. Former versions call it `ready`.
    Available,
    /// It is being provisioned.
    Provisioning,
    /// It has its image.
    Provisioned,
    /// It has an image from elsewhere.
    ExternallyProvisioned,
    /// Its image is being removed.
    Deprovisioning,
    /// Its hardware is being inspected.
    Inspecting,
    /// It is switched off before its deletion.
    PoweringOffBeforeDelete,
    /// It is being deleted.
    Deleting,
    /// A state that this version does not know.
    Unknown,
}

impl ProvisioningState {
    /// Returns the state with this text.
    pub fn parse(text: &str) -> Self {
        match text {
            "" => Self::None,
            "unmanaged" => Self::Unmanaged,
            "registering" => Self::Registering,
            "match profile" => Self::MatchProfile,
            "preparing" => Self::Preparing,
            "ready" | "available" => Self::Available,
            "provisioning" => Self::Provisioning,
            "provisioned" => Self::Provisioned,
            "externally provisioned" => Self::ExternallyProvisioned,
            "deprovisioning" => Self::Deprovisioning,
            "inspecting" => Self::Inspecting,
            "powering off before delete" => Self::PoweringOffBeforeDelete,
            "deleting" => Self::Deleting,
            _ => Self::Unknown,
        }
    }
}

impl BareMetalHost {
    /// Returns the state of the provisioning.
    pub fn state(&self) -> ProvisioningState {
        let status = self.status.as_ref();
        let state = status.map(|status| status.provisioning.state.as_str());
        ProvisioningState::parse(state.unwrap_or_default())
    }

    /// Returns the network interfaces that were found by inspection.
    pub fn interfaces(&self) -> &[HostInterface] {
        let status = self.status.as_ref();
        let hardware = status.and_then(|status| status.hardware.as_ref());
        let nics = hardware.and_then(|hardware| hardware.nics.as_ref());
        nics.map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_keeps_fields_that_are_not_known() {
        let status = json!({
            "operationalStatus": "OK", "errorMessage": "", "poweredOn": true, "errorCount": 0,
            "provisioning": {"state": "sleeping", "ID": "1", "image": {"url": "u"}},
            "hardware": {
                "hostname": "h", "cpu": {"count": 2},
                "nics": [{"name": "n", "mac": "m", "ip": "i", "speedGbps": 10}],
            },
            "goodCredentials": {"credentials": {"name": "c"}},
        });
        let host = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {},
            "spec": {"online": true, "rootDeviceHints": {}}, "status": status,
        });
        let host: BareMetalHost = serde_json::from_value(host).unwrap();
        assert_eq!(host.state(), ProvisioningState::Unknown);
        assert_eq!(host.interfaces()[0].mac, "m");
        assert_eq!(serde_json::to_value(host.status).unwrap(), status);
    }

    #[test]
    fn host_without_status_has_no_state() {
        let host = BareMetalHost::default();
        assert_eq!(host.state(), ProvisioningState::None);
        assert!(host.interfaces().is_empty());
    }
}
