//! Rejections of requests, as reported to clients.

use insula_kinds::Value;
use serde_json::json;

use crate::request::{Request, VersionedObjects, meta};

/// A rejection, which becomes a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The reason; may be empty.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The details.
    pub details: Option<Value>,
}

impl Refusal {
    /// The request is invalid.
    pub fn bad_request(message: String) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The server or its configuration is at fault.
    pub fn internal(why: &str) -> Self {
        Self {
            details: Some(json!({"causes": [{"message": why}]})),
            ..Self::new(
                500,
                "InternalError",
                format!("Internal error occurred: {why}"),
            )
        }
    }

    /// The namespace does not exist.
    pub fn no_namespace(name: &str) -> Self {
        Self {
            details: Some(json!({"name": name, "kind": "namespaces"})),
            ..Self::new(404, "NotFound", format!("namespaces \"{name}\" not found"))
        }
    }

    /// The operation is forbidden for the object of this name.
    pub(crate) fn forbidden(request: &Request<'_>, name: &str, why: &str) -> Self {
        let resource = &request.target.resource;
        let of = resource.qualified();
        let message = match name {
            "" => format!("{of} is forbidden: {why}"),
            name => format!("{of} \"{name}\" is forbidden: {why}"),
        };
        let mut details = json!({"kind": resource.resource});
        for (member, value) in [("name", name), ("group", resource.group.as_str())] {
            if !value.is_empty() {
                details[member] = value.into();
            }
        }
        Self {
            details: Some(details),
            ..Self::new(403, "Forbidden", message)
        }
    }

    /// The operation is forbidden. Without a name, the object's `generateName` is reported.
    pub(crate) fn forbidden_object(
        request: &Request<'_>,
        subject: VersionedObjects<'_>,
        why: &str,
    ) -> Self {
        let names = [
            request.name,
            meta(subject.object, "name"),
            meta(subject.object, "generateName"),
            "Unknown!",
        ];
        let name = names.into_iter().find(|name| !name.is_empty());
        Self::forbidden(request, name.unwrap_or_default(), why)
    }

    pub(crate) fn caused_by(mut self, message: &str) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        match details["causes"].as_array_mut() {
            Some(causes) => causes.push(json!({"message": message})),
            None => details["causes"] = json!([{"message": message}]),
        }
        self
    }

    pub(crate) fn new(code: u16, reason: &str, message: String) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message,
            details: None,
        }
    }
}
