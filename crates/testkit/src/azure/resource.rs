//! Resources and their representation in answers.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::journal::Caller;
use super::kinds::{self, StateField};
use super::manner::Manner;
use super::path::ArmId;

/// A resource or a resource group.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub id: ArmId,
    /// The content that clients wrote.
    pub body: Map<String, Value>,
    /// Properties that the service chose at creation.
    pub service: Map<String, Value>,
    /// The identity of the resource itself, if it has one of the system.
    pub principal: String,
    pub etag: String,
    /// The provisioning state; `None` for types without one.
    pub state: Option<String>,
    /// The id of the operation in progress.
    pub operation: Option<String>,
    pub created_by: Caller,
}

/// The state of a resource without an operation in progress.
pub(super) const SUCCEEDED: &str = "Succeeded";

impl Resource {
    /// The content of a property that a client wrote.
    pub fn property(&self, name: &str) -> Option<&Value> {
        self.body.get("properties")?.get(name)
    }

    /// The location of the resource; empty if it has none.
    pub fn location(&self) -> &str {
        let location = self.body.get("location").and_then(Value::as_str);
        location.unwrap_or_default()
    }

    /// Changes the entity tag, as each write does.
    pub fn touch(&mut self) {
        self.etag = format!("W/\"{}\"", Uuid::new_v4());
    }

    /// The resource in an answer. Children are those that are part of their parent.
    pub fn view(&self, manner: &Manner, children: Vec<(&'static str, Vec<Value>)>) -> Value {
        let kind = kinds::facts(&self.id.resource_type());
        let mut view = self.body.clone();
        view.retain(|_, value| !value.is_null());
        let id = match manner.lower_case_groups {
            true => self.id.text_with_lower_case_group(),
            false => self.id.text(),
        };
        view.insert("id".to_owned(), id.into());
        view.insert("name".to_owned(), self.id.name().into());
        let shown = kind
            .shown_type
            .map_or_else(|| self.id.resource_type(), str::to_owned);
        view.insert("type".to_owned(), shown.into());
        if kind.etag {
            view.insert("etag".to_owned(), self.etag.clone().into());
        }
        self.complete_identity(&mut view);
        let mut properties = self.properties(&kind, &view);
        for (name, children) in children {
            properties.insert(name.to_owned(), children.into());
        }
        view.insert("properties".to_owned(), Value::Object(properties));
        Value::Object(view)
    }

    fn properties(&self, kind: &kinds::KindFacts, view: &Map<String, Value>) -> Map<String, Value> {
        let mut properties = self.service.clone();
        let written = view.get("properties").and_then(Value::as_object);
        for (name, value) in written.into_iter().flatten() {
            let hidden = kind.write_only.contains(&name.as_str());
            if !hidden && !value.is_null() {
                properties.insert(name.clone(), value.clone());
            }
        }
        if let Some(state) = &self.state {
            let (name, value) = match kind.state {
                StateField::ProvisioningState => ("provisioningState", state.as_str()),
                StateField::Other(name, ready) if state == SUCCEEDED => (name, ready),
                StateField::Other(name, _) => (name, state.as_str()),
            };
            properties.insert(name.to_owned(), value.into());
        }
        properties
    }

    fn complete_identity(&self, view: &mut Map<String, Value>) {
        let Some(identity) = view.get_mut("identity").and_then(Value::as_object_mut) else {
            return;
        };
        let kind = identity.get("type").and_then(Value::as_str);
        if kind.is_some_and(|kind| kind.contains("SystemAssigned")) {
            identity.insert("principalId".to_owned(), json!(self.principal));
            identity.insert("tenantId".to_owned(), json!(self.created_by.tenant));
        }
    }
}
