//! Admission reviews: `admission.k8s.io/v1`.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{patch, review};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A request that is under review.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// The identifier of the review.
    pub uid: String,
    /// The operation.
    pub operation: Operation,
    /// The kind of the object, in the version of the webhook's rule.
    pub kind: GroupVersionKind,
    /// The resource of the request, in the version of the webhook's rule.
    pub resource: GroupVersionResource,
    /// The subresource; empty for the object itself.
    #[serde(default)]
    pub sub_resource: String,
    /// The kind in the version that the client used.
    pub request_kind: Option<GroupVersionKind>,
    /// The resource in the version that the client used.
    pub request_resource: Option<GroupVersionResource>,
    /// The namespace; empty for objects without one.
    #[serde(default)]
    pub namespace: String,
    /// The name; empty if the server generates it, or if a collection is deleted.
    #[serde(default)]
    pub name: String,
    /// The client.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object; none when it is deleted.
    #[serde(default)]
    pub object: Option<Value>,
    /// The object as it was; none when it is created.
    #[serde(default)]
    pub old_object: Option<Value>,
    /// Whether nothing is stored. A handler must have no side effects then.
    #[serde(default, deserialize_with = "or_default")]
    pub dry_run: bool,
    /// The options of the request, such as `DeleteOptions`.
    #[serde(default)]
    pub options: Option<Value>,
    /// The space of the object. Only the API server of this process passes it: a review that
    /// came over the network has none.
    #[serde(skip)]
    pub space: Option<ObjectSpace>,
}

/// The space of an object under review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectSpace {
    /// The system space.
    System,
    /// The space of this tenant.
    Tenant(String),
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is updated, patched or applied.
    Update,
    /// An object is deleted.
    Delete,
    /// A connection is opened, such as `exec`.
    Connect,
}

/// The kind of an object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GroupVersionKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// The resource of a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GroupVersionResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The resource in the plural.
    pub resource: String,
}

/// The answer of an admission handler.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionResponse {
    decision: Decision,
    warnings: Vec<String>,
    audit_annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Decision {
    Allowed {
        patch: Vec<Value>,
    },
    Denied {
        code: u16,
        reason: String,
        message: String,
    },
}

/// Whether a webhook may change objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Validating,
    Mutating,
}

impl AdmissionResponse {
    /// Allows the request.
    pub const fn allow() -> Self {
        Self::new(Decision::Allowed { patch: Vec::new() })
    }

    /// Allows the request with a JSON patch of the object: a list of operations.
    pub const fn allow_with_patch(operations: Vec<Value>) -> Self {
        Self::new(Decision::Allowed { patch: operations })
    }

    /// Allows the request with the changes between the object under review and `after`.
    pub fn allow_changed(request: &AdmissionRequest, after: &Value) -> Self {
        let before = request.object.as_ref().unwrap_or(&Value::Null);
        Self::allow_with_patch(patch::between(before, after))
    }

    /// Denies the request with 403 and this message.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::deny_with(403, "Forbidden", message)
    }

    /// Denies the request with this HTTP status code, reason of Kubernetes and message.
    pub fn deny_with(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Decision::Denied {
            code,
            reason: reason.into(),
            message: message.into(),
        })
    }

    const fn new(decision: Decision) -> Self {
        Self {
            decision,
            warnings: Vec::new(),
            audit_annotations: BTreeMap::new(),
        }
    }

    /// Adds a warning that the client shows.
    #[must_use]
    pub fn with_warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Adds an annotation to the audit event.
    #[must_use]
    pub fn with_audit_annotation(mut self, key: &str, value: &str) -> Self {
        self.audit_annotations
            .insert(key.to_owned(), value.to_owned());
        self
    }

    /// Returns the review with this response. Fails if a validating webhook patches.
    pub(super) fn review(self, uid: &str, mode: Mode) -> Result<Value, String> {
        let mut response = json!({"uid": uid});
        match self.decision {
            Decision::Allowed { patch } => {
                response["allowed"] = true.into();
                if !patch.is_empty() {
                    if mode == Mode::Validating {
                        return Err("the handler of a validating webhook returned a patch".into());
                    }
                    let patch = ByteString(Value::Array(patch).to_string().into_bytes());
                    response["patch"] = json!(patch);
                    response["patchType"] = "JSONPatch".into();
                }
            }
            Decision::Denied {
                code,
                reason,
                message,
            } => {
                response["allowed"] = false.into();
                response["status"] = json!({
                    "status": "Failure", "code": code, "reason": reason, "message": message,
                });
            }
        }
        if !self.warnings.is_empty() {
            response["warnings"] = json!(self.warnings);
        }
        if !self.audit_annotations.is_empty() {
            response["auditAnnotations"] = json!(self.audit_annotations);
        }
        Ok(json!({"apiVersion": API_VERSION, "kind": KIND, "response": response}))
    }
}

/// Parses the request of a review. The error is a message for the caller.
pub(super) fn parse(body: &[u8]) -> Result<AdmissionRequest, String> {
    let request: AdmissionRequest = review::request(body, API_VERSION, KIND)?;
    match request.uid.is_empty() {
        true => Err(format!("the request of the {KIND} has no uid")),
        false => Ok(request),
    }
}

/// Reads null as the default value.
fn or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
