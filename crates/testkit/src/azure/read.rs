//! GETs of resources, subscriptions and deleted vaults.

use http::Method;
use serde_json::{Value, json};

use super::access::Subscription;
use super::journal::Caller;
use super::kinds;
use super::message::Response;
use super::path::ArmId;
use super::state::ArmState;

impl ArmState {
    pub fn read(&mut self, id: &ArmId, method: &Method) -> Result<Response, Response> {
        self.check_place(id, "read")?;
        self.observe_resource(id);
        let Some(resource) = self.get(id) else {
            return Err(self.not_found(id));
        };
        if method == Method::HEAD {
            return Ok(Response::empty(204));
        }
        let etag = kinds::facts(&id.resource_type())
            .etag
            .then(|| resource.etag.clone());
        Ok(Response::json(200, self.view(resource)).with_optional("ETag", etag))
    }

    pub fn list_subscriptions(&self, caller: &Caller) -> Response {
        let mine = self.subscriptions.iter().filter(|subscription| {
            let key = format!("/subscriptions/{}", subscription.id.to_ascii_lowercase());
            self.subscriptions.grants(caller, &key) || self.has_role(caller, &key)
        });
        let mine: Vec<_> = mine.map(subscription_view).collect();
        Response::json(200, json!({"value": mine}))
    }

    /// Answers a GET of a subscription or of a resource provider.
    pub fn read_scope(&self, id: &ArmId) -> Result<Response, Response> {
        let subscription = self.subscriptions.get(&id.subscription);
        let view = match (id.namespace(), subscription) {
            (Some(namespace), _) => self.provider_view(id, namespace),
            (None, Some(subscription)) => subscription_view(subscription),
            (None, None) => return Err(self.not_found(id)),
        };
        Ok(Response::json(200, view))
    }

    pub fn provider_view(&self, id: &ArmId, namespace: &str) -> Value {
        let state = self.subscriptions.registration(&id.subscription, namespace);
        json!({"id": id.text(), "namespace": namespace, "registrationState": state.word()})
    }

    pub fn read_deleted_vault(&mut self, id: &ArmId) -> Result<Response, Response> {
        let vault = self.deleted_vault(id)?;
        self.observe_purges(&vault);
        self.deleted_vault(id)?;
        Ok(Response::json(
            200,
            json!({
                "id": id.text(), "name": id.name(), "type": "Microsoft.KeyVault/deletedVaults",
                "properties": {
                    "vaultId": vault.text(), "location": self.deleted_vaults[&vault.key()].location(),
                },
            }),
        ))
    }

    pub fn deleted_vault(&self, id: &ArmId) -> Result<ArmId, Response> {
        let mut all = self.deleted_vaults.values();
        let same = |vault: &ArmId| {
            let subscription = vault.subscription.eq_ignore_ascii_case(&id.subscription);
            subscription && vault.name().eq_ignore_ascii_case(id.name())
        };
        let found = all.find(|vault| same(&vault.id));
        found.map(|vault| vault.id.clone()).ok_or_else(|| {
            let message = format!(
                "The specified deleted vault '{}' does not exist.",
                id.name()
            );
            Response::error(404, "DeletedVaultNotFound", message)
        })
    }
}

fn subscription_view(subscription: &Subscription) -> Value {
    let Subscription { id, tenant, .. } = subscription;
    json!({
        "id": format!("/subscriptions/{id}"), "subscriptionId": id, "tenantId": tenant,
        "displayName": id, "state": subscription.state(),
    })
}
