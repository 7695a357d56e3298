//! What makes a host free again, and when it is.

use insula_capi::names::CLUSTER_LABEL;

use super::choose::ReuseGroup;
use super::consumer;
use super::restart::withdraw_all;
use crate::kinds::host::{BareMetalHost, ProvisioningState};
use crate::names::{FORMER_CLEANING_MODE, HOST_PAUSED, HOST_PAUSED_BY, HOST_STATUS, NODE_REUSE};

/// Whether hosts stay on between two machines, so that the next one starts faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastTrack {
    /// They are switched off.
    #[default]
    Off,
    /// They stay on if their disks are cleaned.
    On,
}

impl FastTrack {
    /// Returns the setting of a flag.
    pub const fn from_flag(is_set: bool) -> Self {
        match is_set {
            true => Self::On,
            false => Self::Off,
        }
    }
}

/// The Cluster API version of references to clusters.
const CLUSTER_VERSION: &str = "v1beta2";

/// Takes from a host what it was to run, and the requests to restart. All three Secrets go, also
/// those that the machine's status does not name any more: they are deleted next.
pub fn deprovision(host: &mut BareMetalHost, fast_track: FastTrack) {
    let spec = &mut host.spec;
    (spec.image, spec.custom_deploy) = (None, None);
    (spec.user_data, spec.meta_data, spec.network_data) = (None, None, None);
    let is_cleaned = spec.automated_cleaning_mode.as_deref() != Some("disabled");
    let stays_on = fast_track == FastTrack::On && is_cleaned;
    spec.online = spec.disable_power_off == Some(true) || stays_on;
    withdraw_all(host);
}

/// Returns whether a host runs nothing of its machine any more.
pub fn is_deprovisioned(host: &BareMetalHost) -> bool {
    use ProvisioningState as State;
    match host.state() {
        State::Registering
        | State::MatchProfile
        | State::Inspecting
        | State::Available
        | State::Unmanaged => true,
        // After a move, the Bare Metal Operator may not have restored the status yet.
        State::None => {
            let annotations = host.metadata.annotations.as_ref();
            let copy = annotations.and_then(|all| all.get(HOST_STATUS));
            copy.is_none_or(String::is_empty)
        }
        // Its image is not this operator's: it is released when it is off.
        State::ExternallyProvisioned => {
            let status = host.status.as_ref();
            !status.is_some_and(|status| status.powered_on)
        }
        State::Preparing
        | State::Provisioning
        | State::Provisioned
        | State::Deprovisioning
        | State::PoweringOffBeforeDelete
        | State::Deleting
        | State::Unknown => false,
    }
}

/// Makes a host free, or keeps it for the next machine of a group.
pub fn release(host: &mut BareMetalHost, cluster: &str, kept_for: Option<&ReuseGroup>) {
    match kept_for {
        Some(group) => group.cluster.take(host, CLUSTER_VERSION),
        None => {
            consumer::clear(host);
            // Hosts that are kept for a group keep its mode as well.
            restore_cleaning_mode(host);
        }
    }
    withdraw_all(host);
    let labels = host.metadata.labels.get_or_insert_default();
    if let Some(group) = kept_for {
        labels.insert(NODE_REUSE.to_owned(), group.label.clone());
    }
    if labels
        .get(CLUSTER_LABEL)
        .is_some_and(|name| name == cluster)
    {
        labels.remove(CLUSTER_LABEL);
    }
    if let Some(annotations) = &mut host.metadata.annotations
        && annotations
            .get(HOST_PAUSED)
            .is_some_and(|by| by == HOST_PAUSED_BY)
    {
        annotations.remove(HOST_PAUSED);
    }
}

/// Restores the cleaning mode that the host had before its machine set another one.
fn restore_cleaning_mode(host: &mut BareMetalHost) {
    let annotations = host.metadata.annotations.as_mut();
    if let Some(former) = annotations.and_then(|all| all.remove(FORMER_CLEANING_MODE)) {
        host.spec.automated_cleaning_mode = Some(former).filter(|mode| !mode.is_empty());
    }
}
