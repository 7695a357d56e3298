//! What a write needs a right for beside the right to write: what the object gives to
//! others, whom it speaks for, and what it holds on to.

mod certificate;
mod escalation;
mod owners;
mod params;

use insula_core::MASTERS;
use insula_kinds::Object;

use crate::pipeline::authorize::Caller;
use crate::registry::{Address, Registry};
use crate::status::Result;

/// An object on its way from what it was to what it is to be.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Which one.
    pub address: &'a Address,
    /// The subresource that is written, if it is one.
    pub subresource: Option<&'a str>,
    /// What it was; nothing if it is new.
    pub old: Option<&'a Object>,
    /// What it is to be.
    pub new: &'a Object,
}

/// Refuses a change that the caller has no right to make. The server itself has all rights,
/// and so have its masters.
pub async fn check(registry: &Registry, by: Option<Caller<'_>>, change: Change<'_>) -> Result<()> {
    let Some(by) = by.filter(|by| !by.principal().is_in(MASTERS)) else {
        return Ok(());
    };
    escalation::check(registry, by, change).await?;
    certificate::check(registry, by, change).await?;
    owners::check(registry, by, change).await?;
    params::check(registry, by, change).await
}
