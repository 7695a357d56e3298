//! PUT and PATCH of resources and groups.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::journal::Caller;
use super::kinds;
use super::manner::PutManner;
use super::message::{ArmRequest, Response};
use super::operation::{Effect, Style};
use super::path::ArmId;
use super::resource::{Resource, SUCCEEDED};
use super::state::ArmState;

impl ArmState {
    /// Creates or replaces a resource or group.
    pub fn put(
        &mut self,
        id: &ArmId,
        request: &ArmRequest,
        caller: &Caller,
    ) -> Result<Response, Response> {
        let Some(Value::Object(body)) = request.body.clone() else {
            let message = "The request content was invalid and could not be deserialized.";
            return Err(Response::error(400, "InvalidRequestContent", message));
        };
        self.check_place(id, "write")?;
        self.subscriptions.check_registered(id)?;
        self.check_location(id, &body)?;
        self.check_idle(id)?;
        self.check_name(id, &body)?;
        let manner = self.manner(id);
        let created = self.get(id).is_none();
        let how = if created {
            manner.create
        } else {
            manner.update
        };
        self.write(id, body, caller, how);
        self.replace_embedded(id, caller);
        let operation = is_long(how).then(|| self.begin(id, Effect::Put, request.api_version()));
        if let (Some(_), Some(resource)) = (&operation, self.resources.get_mut(&id.key())) {
            let state = if created { manner.creating } else { "Updating" };
            resource.state = Some(state.to_owned());
        }
        Ok(self.answer_put(id, how, created, operation, &request.endpoint))
    }

    /// Merges into a resource or group.
    pub fn patch(&mut self, id: &ArmId, request: &ArmRequest) -> Result<Response, Response> {
        self.check_place(id, "write")?;
        self.check_idle(id)?;
        let Some(resource) = self.resources.get_mut(&id.key()) else {
            return Err(self.not_found(id));
        };
        let Some(Value::Object(patch)) = &request.body else {
            let message = "The request content was invalid and could not be deserialized.";
            return Err(Response::error(400, "InvalidRequestContent", message));
        };
        for (name, value) in patch {
            merge(
                resource.body.entry(name.clone()).or_insert(Value::Null),
                value,
            );
        }
        resource.touch();
        Ok(Response::json(200, self.shown(id)))
    }

    pub fn write(&mut self, id: &ArmId, body: Map<String, Value>, caller: &Caller, how: PutManner) {
        let stateless = matches!(how, PutManner::Stateless | PutManner::RelativeLocation);
        let location = body
            .get("location")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let service = kinds::service_properties(id, location, &caller.tenant);
        if self.get(id).is_none()
            && let Some(Value::String(subscription)) = service.get("subscriptionId")
        {
            self.subscriptions.add(subscription, &caller.tenant);
            self.subscriptions.grant(&caller.client, subscription);
        }
        // A vault that is recovered keeps what the service chose.
        let former = self.resources.remove(&id.key());
        let former = former.or_else(|| self.deleted_vaults.remove(&id.key()));
        let mut resource = former.unwrap_or_else(|| Resource {
            id: id.clone(),
            body: Map::new(),
            service,
            principal: Uuid::new_v4().to_string(),
            etag: String::new(),
            state: None,
            operation: None,
            created_by: caller.clone(),
        });
        resource.body = body;
        resource.state = (!stateless).then(|| SUCCEEDED.to_owned());
        resource.touch();
        self.resources.insert(id.key(), resource);
    }

    /// Makes the children that are part of a resource those that the PUT listed.
    fn replace_embedded(&mut self, id: &ArmId, caller: &Caller) {
        for kind in kinds::facts(&id.resource_type()).embedded {
            let properties = self.resources.get_mut(&id.key());
            let properties = properties.and_then(|resource| resource.body.get_mut("properties"));
            let listed = properties
                .and_then(Value::as_object_mut)
                .and_then(|all| all.remove(*kind));
            let listed: Vec<Value> = match listed {
                Some(Value::Array(listed)) => listed,
                _ => Vec::new(),
            };
            let names = listed.iter().filter_map(|child| child["name"].as_str());
            let keys: Vec<String> = names.map(|name| id.child(kind, name).key()).collect();
            let prefix = id.child(kind, "").key();
            let gone: Vec<String> = self
                .below(&id.key())
                .map(|(key, _)| key.clone())
                .filter(|key| key.starts_with(&prefix) && !keys.contains(key))
                .collect();
            for key in gone {
                self.remove(&key);
            }
            for child in listed {
                let (Some(name), Value::Object(body)) = (child["name"].as_str(), child.clone())
                else {
                    continue;
                };
                self.write(&id.child(kind, name), body, caller, PutManner::Done);
            }
        }
    }

    fn answer_put(
        &mut self,
        id: &ArmId,
        how: PutManner,
        created: bool,
        operation: Option<String>,
        endpoint: &str,
    ) -> Response {
        let usual = if created { 201 } else { 200 };
        let view = self.shown(id);
        let mut url = |style| {
            let operation = operation
                .as_ref()
                .and_then(|of| self.operations.get_mut(of));
            operation
                .map(|operation| operation.url(endpoint, style))
                .unwrap_or_default()
        };
        let async_header = "Azure-AsyncOperation";
        let response = match how {
            PutManner::Done | PutManner::Stateless => return Response::json(usual, view),
            PutManner::RelativeLocation if created => {
                return Response::json(usual, view).with("Location", id.text());
            }
            PutManner::RelativeLocation => return Response::json(usual, view),
            PutManner::Body(status) => return Response::json(status, view),
            PutManner::Async(status) => {
                Response::json(status, view).with(async_header, url(Style::Async))
            }
            PutManner::AsyncWithoutResource => {
                let started = jiff::Timestamp::now().to_string();
                let body = json!({"operation": "UpsertManagementOperation", "startTime": started});
                let response = Response::json(202, body);
                let response = response.with(async_header, url(Style::Async));
                response.with("Location", url(Style::Location))
            }
            PutManner::Location => Response::empty(202).with("Location", url(Style::Location)),
        };
        let manner = self.manner(id);
        response.with_optional("Retry-After", self.manners.retry_after(&manner))
    }

    fn shown(&self, id: &ArmId) -> Value {
        self.get(id)
            .map(|resource| self.view(resource))
            .unwrap_or_default()
    }
}

const fn is_long(how: PutManner) -> bool {
    !matches!(
        how,
        PutManner::Done | PutManner::Stateless | PutManner::RelativeLocation
    )
}

/// Merges as RFC 7396 says.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.as_object_mut().map(|target| target.remove(name));
            }
            value => merge(&mut target[name], value),
        }
    }
}
