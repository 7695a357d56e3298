//! A session, and what is asked in it about single objects.

use std::fmt;

use super::call::Caller;
use super::text::Text;
use super::wire::authority;
use super::{About, Error, Object};

/// A session. One at a time for each account, whoever uses it.
pub struct Session {
    caller: Caller,
    services: Services,
    about: About,
}

/// What a vCenter is asked through.
pub(super) struct Services {
    pub(super) root_folder: Object,
    pub(super) property_collector: Object,
    pub(super) session_manager: Object,
    pub(super) search_index: Object,
}

impl Session {
    pub(super) fn new(caller: Caller, services: Services, about: About) -> Self {
        Self {
            caller,
            services,
            about,
        }
    }

    /// What the vCenter says of itself.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The object at a path like `/DC0/vm/templates/ubuntu`.
    pub async fn find_by_path(&self, path: &str) -> Result<Option<Object>, Error> {
        let index = &self.services.search_index;
        let found = self.caller.call("FindByInventoryPath", index, |find| {
            find.leaf("inventoryPath", path);
        });
        Ok(found.await?.object("returnval"))
    }

    /// The virtual machine whose BIOS has this UUID.
    pub async fn find_vm_by_bios_uuid(&self, uuid: &str) -> Result<Option<Object>, Error> {
        self.find_vm(uuid, false).await
    }

    /// The virtual machine that the vCenter knows by this UUID.
    pub async fn find_vm_by_instance_uuid(&self, uuid: &str) -> Result<Option<Object>, Error> {
        self.find_vm(uuid, true).await
    }

    async fn find_vm(&self, uuid: &str, of_instance: bool) -> Result<Option<Object>, Error> {
        let index = &self.services.search_index;
        let found = self.caller.call("FindByUuid", index, |find| {
            find.leaf("uuid", uuid);
            find.plain("vmSearch", true);
            find.plain("instanceUuid", of_instance);
        });
        Ok(found.await?.object("returnval"))
    }

    /// Whether the vCenter still knows this session.
    pub(crate) async fn current(&self) -> Result<bool, Error> {
        let manager = &self.services.session_manager;
        let found = self.retrieve_one(manager, &["currentSession"]).await?;
        let current = found.as_ref().and_then(|found| found.get("currentSession"));
        Ok(current.is_some_and(|session| session.text("key").is_some()))
    }

    /// Logs out. Whether it is heard does not matter: a session that cannot be closed ends
    /// by itself when it was not used for a while.
    pub(super) async fn leave(&self) {
        let manager = &self.services.session_manager;
        if let Err(error) = self.caller.call("Logout", manager, |_: &mut Text| ()).await {
            tracing::debug!(vcenter = ?self, %error, "a session could not be closed");
        }
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) fn services(&self) -> &Services {
        &self.services
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = authority(self.caller.wire().endpoint());
        out.debug_tuple("Session").field(&place).finish()
    }
}
