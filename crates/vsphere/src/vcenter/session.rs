//! A session, and calls about single objects.

use std::fmt;

use insula_operator::outbound::authority;

use super::call::Caller;
use super::xml_writer::XmlWriter;
use super::{About, Error, Object};

/// A session. All users of an account share one.
pub struct Session {
    caller: Caller,
    services: Services,
    about: About,
}

/// The service objects of a vCenter.
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

    /// Returns the description of the vCenter.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Returns the object at a path like `/DC0/vm/templates/ubuntu`.
    pub async fn find_by_path(&self, path: &str) -> Result<Option<Object>, Error> {
        let index = &self.services.search_index;
        let found = self.caller.call("FindByInventoryPath", index, |find| {
            find.leaf("inventoryPath", path);
        });
        Ok(found.await?.object("returnval"))
    }

    /// Returns the virtual machine with this BIOS UUID.
    pub async fn find_vm_by_bios_uuid(&self, uuid: &str) -> Result<Option<Object>, Error> {
        self.find_vm(uuid, false).await
    }

    /// Returns the virtual machine with this instance UUID.
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

    /// Returns whether the vCenter still knows this session.
    pub(crate) async fn is_current(&self) -> Result<bool, Error> {
        let manager = &self.services.session_manager;
        let found = self.retrieve_one(manager, &["currentSession"]).await?;
        let current = found.as_ref().and_then(|found| found.get("currentSession"));
        Ok(current.is_some_and(|session| session.text("key").is_some()))
    }

    /// Logs out. A failure is only logged, because an idle session expires by itself.
    pub(super) async fn log_out(&self) {
        let manager = &self.services.session_manager;
        if let Err(error) = self
            .caller
            .call("Logout", manager, |_: &mut XmlWriter| ())
            .await
        {
            tracing::debug!(vcenter = ?self, %error, "logout failed");
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
        let place = authority(self.caller.endpoint());
        out.debug_tuple("Session").field(&place).finish()
    }
}
