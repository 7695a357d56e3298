//! DELETEs of resources, and POSTs of actions.

use http::Method;
use serde_json::{Value, json};

use super::kinds;
use super::manner::DeleteManner;
use super::message::{ArmRequest, Response, not_allowed};
use super::operation::{Effect, Style};
use super::path::ArmId;
use super::resource::Resource;
use super::state::ArmState;

/// The type of API Management products, in lower case.
const PRODUCTS: &str = "microsoft.apimanagement/service/products";

impl ArmState {
    pub fn delete(&mut self, id: &ArmId, request: &ArmRequest) -> Result<Response, Response> {
        self.check_place(id, "delete")?;
        self.delete_subscriptions(id, request)?;
        let manner = self.manner(id);
        let Some(resource) = self.get(id) else {
            return Err(self.not_found(id));
        };
        let style = match manner.delete {
            DeleteManner::NotAllowed => return Err(not_allowed(&request.method)),
            DeleteManner::Done(status) => {
                self.remove(&id.key());
                return Ok(Response::empty(status));
            }
            DeleteManner::Async => Style::Async,
            DeleteManner::Location => Style::Location,
        };
        let running = resource
            .operation
            .clone()
            .and_then(|of| self.operations.get(&of));
        let operation = match running {
            // A second DELETE joins the first.
            Some(running) if running.effect == Effect::Delete => running.id.clone(),
            _ => self.begin(id, Effect::Delete, request.api_version()),
        };
        if let Some(resource) = self.resources.get_mut(&id.key()) {
            resource.state = Some("Deleting".to_owned());
        }
        Ok(self.accepted(&operation, style, &request.endpoint))
    }

    /// The 202 that begins an operation without a resource in the body.
    fn accepted(&mut self, operation: &str, style: Style, endpoint: &str) -> Response {
        let response = Response::empty(202);
        let Some(operation) = self.operations.get_mut(operation) else {
            return response;
        };
        let retry_after = operation.retry_after.clone();
        let response = response.with_optional("Retry-After", retry_after);
        let response = response.with("Location", operation.url(endpoint, Style::Location));
        match style {
            Style::Async => response.with("Azure-AsyncOperation", operation.url(endpoint, style)),
            Style::Location => response,
        }
    }

    pub fn act(
        &mut self,
        id: &ArmId,
        action: &str,
        request: &ArmRequest,
    ) -> Result<Response, Response> {
        if id
            .type_in_namespace()
            .eq_ignore_ascii_case("locations/deletedVaults")
        {
            let vault = self.deleted_vault(id)?;
            let operation = self.begin(&vault, Effect::PurgeVault, request.api_version());
            return Ok(self.accepted(&operation, Style::Location, &request.endpoint));
        }
        self.check_place(id, "action")?;
        let Some(resource) = self.get(id) else {
            return Err(self.not_found(id));
        };
        if resource.operation.is_some() {
            self.observe_resource(id);
            let message =
                "The provisioning state must be 'Succeeded' before executing the operation.";
            let code = match id
                .type_in_namespace()
                .eq_ignore_ascii_case("storageAccounts")
            {
                true => "StorageAccountIsNotProvisioned",
                false => "Conflict",
            };
            return Err(Response::error(409, code, message));
        }
        let key = (
            id.resource_type().to_ascii_lowercase(),
            action.to_ascii_lowercase(),
        );
        let chosen = self.answers.get(&key).cloned();
        let answer = chosen
            .or_else(|| kinds::action(id, action))
            .ok_or_else(|| {
                let message = format!(
                    "The resource type '{}/{action}' could not be found.",
                    id.resource_type()
                );
                Response::error(404, "InvalidResourceType", message)
            })?;
        Ok(Response::json(200, answer))
    }

    fn cancel(&mut self, subscription: &str) -> Result<Response, Response> {
        if !self.subscriptions.cancel(subscription) {
            let message = format!("The subscription '{subscription}' is not active.");
            return Err(Response::error(409, "SubscriptionNotActive", message));
        }
        Ok(Response::json(200, json!({"subscriptionId": subscription})))
    }

    /// Deletes the subscriptions of an API Management product as its DELETE asks for. One with
    /// subscriptions cannot be deleted otherwise.
    fn delete_subscriptions(&mut self, id: &ArmId, request: &ArmRequest) -> Result<(), Response> {
        let kind = id.resource_type().to_ascii_lowercase();
        let (PRODUCTS, Some(service)) = (kind.as_str(), id.parent()) else {
            return Ok(());
        };
        if request.if_match.is_none() {
            let message = "The If-Match header is required.";
            return Err(Response::error(400, "ValidationError", message));
        }
        let scope = format!("/products/{}", id.name()).to_ascii_lowercase();
        let of_product = |resource: &Resource| {
            let own = resource.property("scope").and_then(Value::as_str);
            own.is_some_and(|own| own.to_ascii_lowercase().ends_with(&scope))
        };
        let prefix = service.child("subscriptions", "").key();
        let below = self.below(&service.key());
        let found = below.filter(|(key, one)| key.starts_with(&prefix) && of_product(one));
        let found: Vec<String> = found.map(|(key, _)| key.clone()).collect();
        if request.parameter("deleteSubscriptions") != Some("true") && !found.is_empty() {
            let message = "Cannot delete a product with subscriptions.";
            return Err(Response::error(400, "ValidationError", message));
        }
        found.iter().for_each(|key| self.remove(key));
        Ok(())
    }

    pub fn register(&mut self, id: &ArmId, action: &str) -> Result<Response, Response> {
        let Some(namespace) = id.namespace() else {
            return Err(not_allowed(&Method::POST));
        };
        match action.to_ascii_lowercase().as_str() {
            "register" => {
                self.subscriptions.register(&id.subscription, namespace);
            }
            "unregister" => self.subscriptions.unregister(&id.subscription, namespace),
            "cancel" if namespace.eq_ignore_ascii_case("Microsoft.Subscription") => {
                return self.cancel(&id.subscription);
            }
            _ => return Err(not_allowed(&Method::POST)),
        }
        Ok(Response::json(200, self.provider_view(id, namespace)))
    }
}
