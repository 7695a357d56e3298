//! Who holds a Secret: owner references and a finalizer. One Secret is held by one claimant;
//! owners that are none of ours do not matter.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// An owner of a Secret.
pub type Owner = OwnerReference;

/// Something that may hold a Secret: an object, or an identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimant {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// Which kinds of that group hold Secrets at all.
    pub kinds: &'static [&'static str],
    /// The finalizer that keeps a held Secret.
    pub finalizer: &'static str,
}

/// What metadata of a Secret would have to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// As it is.
    Right,
    /// With these owners and finalizers.
    Write { owners: Vec<OwnerReference>, finalizers: Vec<String> },
    /// It is held by this one.
    Taken(OwnerReference),
}

impl Claimant {
    /// To hold a Secret: an entry of ours (same group, kind and name) is refreshed, the
    /// finalizer is there.
    pub fn claim(&self, owners: &[OwnerReference], finalizers: &[String]) -> Verdict {
        todo!("{owners:?}{finalizers:?}")
    }
    /// To let it go: our entry goes, and the finalizer if nobody else of ours holds it.
    pub fn release(&self, owners: &[OwnerReference], finalizers: &[String]) -> Verdict {
        todo!("{owners:?}{finalizers:?}")
    }
}
