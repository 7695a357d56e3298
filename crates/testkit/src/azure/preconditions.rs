//! The preconditions of a write.

use serde_json::{Map, Value};

use super::kinds;
use super::manner::Manner;
use super::message::Response;
use super::operation::Effect;
use super::path::ArmId;
use super::state::ArmState;

impl ArmState {
    /// Checks that a resource has a location, and keeps it.
    pub fn check_location(&self, id: &ArmId, body: &Map<String, Value>) -> Result<(), Response> {
        let kind = kinds::facts(&id.resource_type());
        let location = body
            .get("location")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if kind.needs_location && location.is_empty() {
            let message = "The location property is required for this definition.";
            return Err(Response::error(400, "LocationRequired", message));
        }
        let Some(existing) = self.get(id) else {
            return Ok(());
        };
        let (old, new) = (normalized(existing.location()), normalized(location));
        if old == new || old.is_empty() || new.is_empty() {
            return Ok(());
        }
        let code = match id.is_group() {
            true => "InvalidResourceGroupLocation",
            false => "InvalidResourceLocation",
        };
        let message = format!(
            "The resource '{}' already exists in location '{old}'. A resource with the same name \
             cannot be created in location '{new}'. Please select a new resource name.",
            id.name()
        );
        Err(Response::error(409, code, message))
    }

    /// Checks that no operation is in progress, on the resource or on its parent, that their type
    /// does not let a write replace.
    pub fn check_idle(&mut self, id: &ArmId) -> Result<(), Response> {
        let parent = id
            .parent()
            .filter(|parent| parent.namespace() == id.namespace());
        for id in [Some(id.clone()), parent].into_iter().flatten() {
            let Some(code) = self.busy_code(&id) else {
                continue;
            };
            // The refused request counts too, so that a client that only repeats its PUT succeeds.
            self.observe_resource(&id);
            let message = format!("Another operation on '{}' is in progress.", id.name());
            return Err(match self.manner(&id).bare_errors {
                true => Response::bare_error(409, code, message),
                false => Response::error(409, code, message),
            });
        }
        Ok(())
    }

    /// The code with which writes are refused while an operation is in progress.
    fn busy_code(&self, id: &ArmId) -> Option<&'static str> {
        let operation = self.get(id)?.operation.as_ref()?;
        let operation = self.operations.get(operation)?;
        let Manner { busy, .. } = self.manner(id);
        match operation.effect {
            Effect::Delete if id.is_group() => Some("ResourceGroupBeingDeleted"),
            Effect::Delete => Some(busy.unwrap_or("AnotherOperationInProgress")),
            Effect::Put | Effect::PurgeVault => busy,
        }
    }

    /// Checks that a new resource has a name that is free in all of Azure, if its type needs that.
    pub fn check_name(&self, id: &ArmId, body: &Map<String, Value>) -> Result<(), Response> {
        if self.get(id).is_some() {
            return Ok(());
        }
        let kind = id.resource_type().to_ascii_lowercase();
        let code = match kind.as_str() {
            "microsoft.storage/storageaccounts" => "StorageAccountAlreadyTaken",
            "microsoft.keyvault/vaults" => "VaultAlreadyExists",
            _ => return Ok(()),
        };
        let end = format!("/providers/{kind}/{}", id.name().to_ascii_lowercase());
        if self.resources.keys().any(|key| key.ends_with(&end)) {
            let message = format!("The name '{}' is already taken.", id.name());
            return Err(Response::error(409, code, message));
        }
        match kind.as_str() {
            "microsoft.keyvault/vaults" => self.check_deleted_vault(id, body),
            _ => Ok(()),
        }
    }

    /// Checks that a new vault recovers a deleted one of its name if, and only if, there is one.
    fn check_deleted_vault(&self, id: &ArmId, body: &Map<String, Value>) -> Result<(), Response> {
        let properties = body.get("properties");
        let mode = properties.and_then(|properties| properties["createMode"].as_str());
        let recover = mode.is_some_and(|mode| mode.eq_ignore_ascii_case("recover"));
        let mut deleted = self.deleted_vaults.values();
        let deleted = deleted.find(|vault| vault.id.name().eq_ignore_ascii_case(id.name()));
        match deleted {
            Some(_) if !recover => {
                let message = "A vault with the same name already exists in deleted state. You need \
                               to either recover or purge existing key vault.";
                Err(Response::error(409, "ConflictError", message))
            }
            Some(vault) if vault.id.key() != id.key() => {
                let message = "The deleted vault is in another resource group.";
                Err(Response::error(409, "VaultAlreadyExists", message))
            }
            None if recover => {
                let message = format!(
                    "The specified deleted vault '{}' does not exist.",
                    id.name()
                );
                Err(Response::error(404, "DeletedVaultNotFound", message))
            }
            _ => Ok(()),
        }
    }
}

/// A location as Azure compares it: `UK South` is `uksouth`.
fn normalized(location: &str) -> String {
    location.replace(' ', "").to_ascii_lowercase()
}
