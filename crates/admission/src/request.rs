//! A request as those see it who admit it.

use std::fmt;

use insula_kinds::{Object, Value};
use serde::Serialize;

/// A request that is to be admitted.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What is done.
    pub operation: Operation,
    /// As what the client speaks of it.
    pub target: Target,
    /// The subresource, empty if it is none.
    pub subresource: &'a str,
    /// The name, empty while it is not known or if a collection is meant.
    pub name: &'a str,
    /// The namespace, empty if the kind has none. A namespace is in itself.
    pub namespace: &'a str,
    /// Who asks.
    pub user: &'a Requester,
    /// Whether nothing is to come of it.
    pub dry_run: bool,
    /// The options of the operation, as an object.
    pub options: Option<&'a Value>,
}

/// What is written, in one version.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// What it is to become; nothing if it is deleted.
    pub object: Option<&'a Object>,
    /// What it was; nothing if it is created.
    pub old: Option<&'a Object>,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It comes about.
    Create,
    /// It changes.
    Update,
    /// It goes away.
    Delete,
    /// Somebody talks to it.
    Connect,
}

/// A resource and the kind of its objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The resource.
    pub resource: GroupVersionResource,
    /// The kind of the body, which is another if it is a subresource's.
    pub kind: GroupVersionKind,
}

/// The kind of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct GroupVersionKind {
    /// Empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The name in objects.
    pub kind: String,
}

/// A resource in paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct GroupVersionResource {
    /// Empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural in paths.
    pub resource: String,
}

/// Somebody who asks, as far as others are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requester {
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// What tells it from others of the name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What else the credential says: lists of text.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub extra: Object,
}

impl Operation {
    /// As rules call it.
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
    /// Whether it configures admission itself, which nothing that is configured may judge.
    pub fn is_admission(&self) -> bool {
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

    /// Whether it only asks who somebody is or what they may: policies are not about that.
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
    /// `resource` or `resource.group`, as errors name it.
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

/// The text at `metadata.member`, empty if there is none.
pub(crate) fn meta<'a>(object: Option<&'a Object>, member: &str) -> &'a str {
    let metadata = object.and_then(|object| object.get("metadata"));
    let text = metadata.and_then(|metadata| metadata.get(member)?.as_str());
    text.unwrap_or_default()
}
