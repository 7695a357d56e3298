//! The states of a host.

use std::fmt;

/// The provisioning state of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It has no state yet.
    None,
    /// It has no management controller.
    Unmanaged,
    /// Its management controller is being checked.
    Registering,
    /// Its hardware is being inspected.
    Inspecting,
    /// It is being configured.
    Preparing,
    /// It can be provisioned.
    Available,
    /// It is being provisioned.
    Provisioning,
    /// It has its image.
    Provisioned,
    /// It has an image from elsewhere.
    ExternallyProvisioned,
    /// Its image is being removed.
    Deprovisioning,
    /// It is being switched off before it is deleted.
    PoweringOffBeforeDelete,
    /// It is being deleted.
    Deleting,
}

impl State {
    const ALL: [Self; 12] = [
        Self::None,
        Self::Unmanaged,
        Self::Registering,
        Self::Inspecting,
        Self::Preparing,
        Self::Available,
        Self::Provisioning,
        Self::Provisioned,
        Self::ExternallyProvisioned,
        Self::Deprovisioning,
        Self::PoweringOffBeforeDelete,
        Self::Deleting,
    ];

    /// Returns the text in `status.provisioning.state`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Unmanaged => "unmanaged",
            Self::Registering => "registering",
            Self::Inspecting => "inspecting",
            Self::Preparing => "preparing",
            Self::Available => "available",
            Self::Provisioning => "provisioning",
            Self::Provisioned => "provisioned",
            Self::ExternallyProvisioned => "externally provisioned",
            Self::Deprovisioning => "deprovisioning",
            Self::PoweringOffBeforeDelete => "powering off before delete",
            Self::Deleting => "deleting",
        }
    }

    /// Returns the state with this text. Texts of former versions count as available.
    pub(super) fn parse(text: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|state| state.as_str() == text);
        found.unwrap_or(Self::Available)
    }

    /// Returns whether a host stays in it until its spec changes, with its power as requested.
    pub(super) const fn is_stable(self) -> bool {
        matches!(
            self,
            Self::Available | Self::Provisioned | Self::ExternallyProvisioned
        )
    }
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
