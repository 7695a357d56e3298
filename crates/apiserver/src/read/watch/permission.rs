//! Whether a watch may go on: the caller still has the right, and the resource is still served
//! as it was.

use std::sync::Arc;

use insula_cache::{Derived, Lost, SpaceState};
use insula_core::{Revision, Space, Spaces};

use super::too_old;
use crate::pipeline::authorize::Granted;
use crate::pipeline::trust::CurrentTrust;
use crate::registry::Registry;
use crate::registry::apis::Offer;
use crate::status::{Result, StatusError};

/// The right to watch, checked again whenever it may have been taken away.
#[derive(Clone)]
pub(super) struct Permission {
    registry: Arc<Registry>,
    granted: Arc<Granted>,
    /// The space that the caller's rights come from.
    home: Arc<SpaceState>,
    /// The space of the impersonator, if the caller is impersonated from another space.
    impersonator_home: Option<Arc<SpaceState>>,
    /// What the caller's certificate or static token is verified with.
    trust: Arc<CurrentTrust>,
    /// The revision of the rights and revocations that were checked last.
    checked: Revision,
    /// The space that defines the resource, if it is a custom one.
    definer: Option<Arc<SpaceState>>,
}

impl Permission {
    /// The permission of a request that was granted. It is checked once more before the first
    /// event, because rights may have changed since.
    pub fn new(
        registry: &Arc<Registry>,
        trust: &Arc<CurrentTrust>,
        granted: &Granted,
    ) -> Result<Self> {
        let cache = registry.cache();
        let home = cache.space_state(&granted.principal().home);
        let home =
            home.ok_or_else(|| StatusError::expired("the space that was watched is gone"))?;
        let holder = granted.principal().authenticated();
        let elsewhere = (holder.home != granted.principal().home).then_some(&holder.home);
        let custom = granted.path().kind.custom();
        Ok(Self {
            impersonator_home: elsewhere.and_then(|space| cache.space_state(space)),
            trust: Arc::clone(trust),
            registry: Arc::clone(registry),
            granted: Arc::new(granted.clone()),
            home,
            checked: Revision::ZERO,
            definer: custom.and_then(|_| cache.space_state(defining_space(granted))),
        })
    }

    /// What was granted.
    pub fn granted(&self) -> &Granted {
        &self.granted
    }

    /// The space that the caller's rights come from.
    pub const fn home(&self) -> &Arc<SpaceState> {
        &self.home
    }

    /// The space of the impersonator, if that is another one.
    pub const fn impersonator_home(&self) -> Option<&Arc<SpaceState>> {
        self.impersonator_home.as_ref()
    }

    /// What the caller's certificate or static token is verified with.
    pub const fn trust(&self) -> &Arc<CurrentTrust> {
        &self.trust
    }

    /// The space that defines the resource, if it is a custom one.
    pub const fn definer(&self) -> Option<&Arc<SpaceState>> {
        self.definer.as_ref()
    }

    /// Whether the right may end without a signal, so that it is checked before events are sent.
    pub fn depends_on_objects(&self) -> bool {
        self.granted.depends_on_objects()
    }

    /// Whether the caller still has the right to watch. Rights are evaluated only if something
    /// changed that can take them away.
    pub fn check(&mut self, seen: Revision) -> Result<()> {
        let now = self.revision();
        if self.home.is_over() {
            return Err(too_old(Lost::Closed, seen));
        }
        if !self.trust.still_accepts(self.granted.principal()) {
            return Err(StatusError::unauthorized());
        }
        if now <= self.checked && !self.depends_on_objects() {
            return Ok(());
        }
        self.checked = now;
        let still = self.granted.recheck(&self.registry);
        // Rights that end with their tenant were not revoked: the watch is over, not forbidden.
        match self.is_home_terminating() {
            true => still.map_err(|_| too_old(Lost::Closed, seen)),
            false => still,
        }
    }

    /// The revision of the last change that can take the right or the credential away.
    fn revision(&self) -> Revision {
        let of = |space: &Arc<SpaceState>| {
            let access = space.revision_of(Derived::Access);
            access.max(space.revision_of(Derived::Revocations))
        };
        let elsewhere = self.impersonator_home.as_ref().map(of);
        of(&self.home).max(elsewhere.unwrap_or(Revision::ZERO))
    }

    /// Whether a custom resource is defined anew since the watch began, or no more. Such a watch
    /// ends without an error, and clients that resume it from before the change list again.
    pub fn is_redefined(&self) -> bool {
        let Some(custom) = self.granted.path().kind.custom() else {
            return false;
        };
        let offer = self.offer();
        offer.is_none_or(|offer| offer.defined.id() != custom.defined().id())
    }

    /// Whether the resource is no longer served at all.
    pub fn is_withdrawn(&self) -> bool {
        self.offer().is_none()
    }

    fn offer(&self) -> Option<Offer> {
        let kind = &self.granted.path().kind;
        let apis = self.registry.apis(defining_space(&self.granted))?;
        apis.offer(&kind.group, &kind.resource).cloned()
    }

    fn is_home_terminating(&self) -> bool {
        let tenant = self.granted.principal().home.tenant();
        let state = tenant.map(|name| self.registry.tenant(name.as_str()));
        state.is_some_and(|state| state.is_none_or(|tenant| tenant.terminating))
    }
}

/// The space with the definition of what is watched: over all spaces, only resources that the
/// system publishes are served.
pub(super) const fn defining_space(granted: &Granted) -> &Space {
    match granted.spaces() {
        Spaces::One(space) => space,
        Spaces::All => &Space::System,
    }
}
