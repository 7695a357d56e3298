//! What a host is to run.

use k8s_openapi::api::core::v1::SecretReference;

use crate::kinds::host::{BareMetalHost, HostCustomDeploy, HostImage};
use crate::names::FORMER_CLEANING_MODE;

/// What a machine wants on its host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deployment {
    /// The image.
    pub image: Option<HostImage>,
    /// Another way to deploy.
    pub custom_deploy: Option<HostCustomDeploy>,
    /// The Secret with the user data, next to the host; none as long as it is not known.
    pub user_data: Option<SecretReference>,
    /// The Secret with the metadata, next to the host.
    pub meta_data: Option<SecretReference>,
    /// The Secret with the network data, next to the host.
    pub network_data: Option<SecretReference>,
    /// How disks are cleaned, if the machine says so.
    pub automated_cleaning_mode: Option<String>,
}

/// Why a host cannot be provisioned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProvisionError {
    /// There is neither an image nor another way to deploy.
    #[error("the machine has neither image nor customDeploy")]
    NothingToDeploy,
    /// A Secret is not next to the host, and the Bare Metal Operator would refuse it.
    #[error("{field} is a Secret of another namespace than that of the host")]
    OtherNamespace {
        /// The field.
        field: &'static str,
    },
}

/// Sets what a host is to run. A host that has an image, or another way to deploy, keeps it: it is
/// provisioned, and a change would provision it again.
///
/// # Errors
///
/// If there is nothing to run, or a Secret is in another namespace.
pub fn provision(host: &mut BareMetalHost, wanted: &Deployment) -> Result<(), ProvisionError> {
    let is_empty = host.spec.image.is_none() && host.spec.custom_deploy.is_none();
    if is_empty && wanted.user_data.is_some() {
        let image = wanted.image.clone().filter(|image| !image.url.is_empty());
        let custom = wanted.custom_deploy.clone();
        let custom = custom.filter(|custom| !custom.method.is_empty());
        if image.is_none() && custom.is_none() {
            return Err(ProvisionError::NothingToDeploy);
        }
        let namespace = host.metadata.namespace.clone();
        let beside = |field, reference: &Option<SecretReference>| {
            let Some(mut reference) = reference.clone() else {
                return Ok(None);
            };
            let given = reference.namespace.take().filter(|given| !given.is_empty());
            if given.is_some() && given != namespace {
                return Err(ProvisionError::OtherNamespace { field });
            }
            reference.namespace = namespace.clone();
            Ok(Some(reference))
        };
        let user_data = beside("userData", &wanted.user_data)?;
        let meta_data = beside("metaData", &wanted.meta_data)?;
        let network_data = beside("networkData", &wanted.network_data)?;
        let spec = &mut host.spec;
        (spec.image, spec.custom_deploy) = (image, custom);
        spec.user_data = user_data;
        let name = host.metadata.name.as_deref().unwrap_or_default();
        let kept = |reference: &mut Option<SecretReference>, suffix| {
            let reference = reference.take();
            reference.filter(|reference| !is_left(reference, name, suffix))
        };
        spec.meta_data = meta_data.or_else(|| kept(&mut spec.meta_data, "-metadata"));
        spec.network_data = network_data.or_else(|| kept(&mut spec.network_data, "-networkdata"));
    }
    let mode = wanted.automated_cleaning_mode.clone();
    if let Some(mode) = mode.filter(|mode| !mode.is_empty()) {
        set_cleaning_mode(host, mode);
    }
    host.spec.online = true;
    Ok(())
}

/// Returns whether a reference was left by a former machine: Secrets of machines have these names,
/// and do not exist any more. One that is named after the host is its administrator's.
fn is_left(reference: &SecretReference, host: &str, suffix: &str) -> bool {
    let name = reference.name.as_deref().unwrap_or_default();
    name.strip_suffix(suffix)
        .is_some_and(|machine| machine != host)
}

/// Sets the cleaning mode, and remembers the former one: that of a machine must not be that of the
/// next one, which may be another team's.
fn set_cleaning_mode(host: &mut BareMetalHost, mode: String) {
    let former = host.spec.automated_cleaning_mode.replace(mode);
    if former == host.spec.automated_cleaning_mode {
        return;
    }
    let annotations = host.metadata.annotations.get_or_insert_default();
    let remembered = annotations.entry(FORMER_CLEANING_MODE.to_owned());
    remembered.or_insert_with(|| former.unwrap_or_default());
}
