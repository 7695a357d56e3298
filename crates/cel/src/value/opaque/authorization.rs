//! Authorization requests and their decisions.

use std::fmt;
use std::sync::Arc;

use super::Opaque;
use crate::value::Value;

/// Decides authorization requests.
pub trait Authorizer: Sync {
    /// Decides a request. It is called during an evaluation and must not block.
    fn decide(&self, request: &AuthorizationRequest) -> Decision;
}

/// An authorization request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationRequest {
    /// The subject of the request.
    pub caller: Caller,
    /// The verb.
    pub verb: String,
    /// The path or resource.
    pub on: Target,
}

/// The subject of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The user who sent the admission request.
    Requester,
    /// A service account.
    ServiceAccount {
        /// The namespace of the account.
        namespace: String,
        /// The name of the account.
        name: String,
    },
}

/// The object of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A non-resource path.
    Path(String),
    /// A resource.
    Resource(Resource),
}

/// A resource, or objects of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// The API group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace of the objects.
    pub namespace: String,
    /// The name of one object.
    pub name: String,
    /// The field selector as written; empty for all objects.
    pub field_selector: String,
    /// The label selector as written; empty for all objects.
    pub label_selector: String,
}

/// The decision about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The reason of the decision.
    pub reason: String,
    /// The error that prevented a decision.
    pub error: Option<String>,
}

/// An authorization request under construction, or its decision.
#[derive(Clone)]
pub struct Authorization<'a> {
    authorizer: &'a dyn Authorizer,
    caller: Caller,
    pub(crate) stage: Stage,
}

/// How far a request is built.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Open,
    Path(String),
    Group(String),
    Resource(Resource),
    Decided(Decision),
}

impl<'a> Value<'a> {
    /// The variable `authorizer`.
    pub fn authorizer(authorizer: &'a dyn Authorizer) -> Self {
        Authorization {
            authorizer,
            caller: Caller::Requester,
            stage: Stage::Open,
        }
        .into()
    }

    /// The variable `authorizer.requestResource`: the resource of the admission request.
    pub fn request_resource(authorizer: &'a dyn Authorizer, resource: Resource) -> Self {
        Authorization {
            authorizer,
            caller: Caller::Requester,
            stage: Stage::Resource(resource),
        }
        .into()
    }
}

impl<'a> From<Authorization<'a>> for Value<'a> {
    fn from(about: Authorization<'a>) -> Self {
        Self::Opaque(Opaque::Authorization(Arc::new(about)))
    }
}

impl Authorization<'_> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Open => "kubernetes.authorization.Authorizer",
            Stage::Path(_) => "kubernetes.authorization.PathCheck",
            Stage::Group(_) => "kubernetes.authorization.GroupCheck",
            Stage::Resource(_) => "kubernetes.authorization.ResourceCheck",
            Stage::Decided(_) => "kubernetes.authorization.Decision",
        }
    }

    pub(crate) fn with_caller(&self, caller: Caller) -> Self {
        Self {
            caller,
            ..self.clone()
        }
    }

    pub(crate) fn at(&self, stage: Stage) -> Self {
        Self {
            stage,
            ..self.clone()
        }
    }

    pub(crate) fn ask(&self, verb: &str, on: Target) -> Self {
        let decision = self.authorizer.decide(&AuthorizationRequest {
            caller: self.caller.clone(),
            verb: verb.to_owned(),
            on,
        });
        self.at(Stage::Decided(decision))
    }
}

impl fmt::Debug for Authorization<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stage.fmt(f)
    }
}
