//! A request as webhooks and policies see it.

use std::fmt;

use insula_kinds::{Object, Value};
use serde::Serialize;

/// A request that is subject to admission.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The operation.
    pub operation: Operation,
    /// The resource and kind that the client used.
    pub target: Target,
    /// The subresource; empty if there is none.
    pub subresource: &'a str,
    /// The object's name; empty if it is not known yet, or for a collection.
    pub name: &'a str,
    /// The namespace; empty for cluster-scoped kinds. A Namespace counts as being in itself.
    pub namespace: &'a str,
    /// The user who makes the request.
    pub user: &'a UserInfo,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// The options of the operation, as an object.
    pub options: Option<&'a Value>,
}

/// The old and new states of the object, in one version.
#[derive(Clone, Copy, Debug, Default)]
pub struct VersionedObjects<'a> {
    /// The new state; `None` on deletion.
    pub object: Option<&'a Object>,
    /// The old state; `None` on creation.
    pub old: Option<&'a Object>,
}

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is updated.
    Update,
    /// The object is deleted.
    Delete,
    /// A client connects to it, as with `exec` or a proxy.
    Connect,
}

/// A resource and the kind of its objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The resource.
    pub resource: GroupVersionResource,
    /// The kind of the request body, which differs for some subresources.
    pub kind: GroupVersionKind,
}

/// The group, version and kind of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// The group, version and name of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct GroupVersionResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name.
    pub resource: String,
}

/// The user who makes a request, as reported to webhooks and expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UserInfo {
    /// The user name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// The user's unique ID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Additional attributes: lists of strings.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub extra: Object,
}

impl Operation {
    /// The name that is used in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl Target {
    /// Reports whether the object is exempt from webhooks and policies: it revokes a credential,
    /// which those must not prevent, or it configures admission.
    pub fn is_exempt(&self) -> bool {
        let revocation = ("access.insula.dev", "CredentialRevocation");
        (self.kind.group.as_str(), self.kind.kind.as_str()) == revocation || self.is_admission()
    }

    /// Reports whether the object configures admission. Such objects are exempt so that a broken
    /// configuration can always be repaired.
    fn is_admission(&self) -> bool {
        let kind = self.kind.kind.as_str();
        self.kind.group == crate::validate::GROUP
            && matches!(
                kind,
                "ValidatingWebhookConfiguration"
                    | "MutatingWebhookConfiguration"
                    | "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding"
                    | "MutatingAdmissionPolicy"
                    | "MutatingAdmissionPolicyBinding"
            )
    }

    /// Reports whether it is an authentication or authorization review, which policies ignore.
    pub fn is_review(&self) -> bool {
        let GroupVersionResource {
            group, resource, ..
        } = &self.resource;
        match group.as_str() {
            "authentication.k8s.io" => {
                matches!(resource.as_str(), "selfsubjectreviews" | "tokenreviews")
            }
            "authorization.k8s.io" => matches!(
                resource.as_str(),
                "localsubjectaccessreviews"
                    | "selfsubjectaccessreviews"
                    | "selfsubjectrulesreviews"
                    | "subjectaccessreviews"
            ),
            _ => false,
        }
    }
}

impl GroupVersionResource {
    /// `resource` or `resource.group`, as used in errors.
    pub fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            version,
            kind,
        } = self;
        write!(f, "{group}/{version}, Kind={kind}")
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            version,
            resource,
        } = self;
        write!(f, "{group}/{version}, Resource={resource}")
    }
}

/// The string at `metadata.member`; empty if missing.
pub(crate) fn meta<'a>(object: Option<&'a Object>, member: &str) -> &'a str {
    let metadata = object.and_then(|object| object.get("metadata"));
    let text = metadata.and_then(|metadata| metadata.get(member)?.as_str());
    text.unwrap_or_default()
}
