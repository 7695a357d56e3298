//! The existence of resources, their parents and their groups.

use super::message::Response;
use super::path::ArmId;
use super::state::ArmState;

impl ArmState {
    /// Checks that the group and the parent of a resource exist, and are not being deleted.
    pub fn check_place(&self, id: &ArmId, verb: &str) -> Result<(), Response> {
        let Some(parent) = id.parent() else {
            return Ok(());
        };
        let group = id.group_id().and_then(|group| self.get(&group));
        if let (Some(name), None) = (&id.group, group) {
            let message = format!("Resource group '{name}' could not be found.");
            return Err(Response::error(404, "ResourceGroupNotFound", message));
        }
        if verb == "write" && group.is_some_and(|group| group.operation.is_some()) {
            let name = id.group.as_deref().unwrap_or_default();
            let message = format!(
                "The resource group '{name}' is in deprovisioning state and cannot perform this operation."
            );
            return Err(Response::error(409, "ResourceGroupBeingDeleted", message));
        }
        if self.get(&parent).is_none() {
            let message = format!(
                "Failed to perform '{verb}' on resource(s) of type '{}', because the parent resource \
                 '{}' could not be found.",
                id.type_in_namespace(),
                parent.text()
            );
            return Err(Response::error(404, "ParentResourceNotFound", message));
        }
        Ok(())
    }

    /// The 404 of a resource or group.
    pub fn not_found(&self, id: &ArmId) -> Response {
        let name = id.group.as_deref().unwrap_or_default();
        if id.is_group() {
            let message = format!("Resource group '{name}' could not be found.");
            return Response::error(404, "ResourceGroupNotFound", message);
        }
        let path = id.path_in_scope();
        let message = format!("The Resource '{path}' under resource group '{name}' was not found.");
        match self.manner(id).bare_errors {
            true => Response::bare_error(404, "NotFound", message),
            false => Response::error(404, "ResourceNotFound", message),
        }
    }
}
