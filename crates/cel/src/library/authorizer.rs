//! The functions of the authorizer, which build a request and pass it to an [`Authorizer`].

use std::fmt;
use std::sync::Arc;

use insula_kinds::validate::text;

use super::{Body, no_overload};
use crate::error::EvalError;
use crate::value::{Opaque, Outcome, Value};

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
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Open,
    Path(String),
    Group(String),
    Resource(Resource),
    Decided(Decision),
}

impl<'a> Value<'a> {
    /// The variable `authorizer`.
    pub fn authorizer(authorizer: &'a dyn Authorizer) -> Self {
        of(Authorization {
            authorizer,
            caller: Caller::Requester,
            stage: Stage::Open,
        })
    }

    /// The variable `authorizer.requestResource`: the resource of the admission request.
    pub fn request_resource(authorizer: &'a dyn Authorizer, resource: Resource) -> Self {
        of(Authorization {
            authorizer,
            caller: Caller::Requester,
            stage: Stage::Resource(resource),
        })
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

    fn at(&self, stage: Stage) -> Self {
        Self {
            stage,
            ..self.clone()
        }
    }

    fn ask(&self, verb: &str, on: Target) -> Self {
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

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("path", 2) => Body::Two(|_, on, text| build("path", &on, &text)),
        ("group", 2) => Body::Two(|_, on, text| build("group", &on, &text)),
        ("resource", 2) => Body::Two(|_, on, text| build("resource", &on, &text)),
        ("subresource", 2) => Body::Two(|_, on, text| build("subresource", &on, &text)),
        ("namespace", 2) => Body::Two(|_, on, text| build("namespace", &on, &text)),
        ("name", 2) => Body::Two(|_, on, text| build("name", &on, &text)),
        ("fieldSelector", 2) => Body::Two(|_, on, text| build("fieldSelector", &on, &text)),
        ("labelSelector", 2) => Body::Two(|_, on, text| build("labelSelector", &on, &text)),
        ("check", 2) => Body::Two(|_, on, text| build("check", &on, &text)),
        ("serviceAccount", 3) => Body::Many(|_, arguments| service_account(&arguments)),
        ("allowed", 1) => {
            Body::One(|_, value| answer("allowed", &value, |decision| decision.allowed.into()))
        }
        ("reason", 1) => Body::One(|_, value| {
            answer("reason", &value, |decision| decision.reason.clone().into())
        }),
        ("errored", 1) => Body::One(|_, value| {
            answer("errored", &value, |decision| {
                decision.error.is_some().into()
            })
        }),
        ("error", 1) => Body::One(|_, value| {
            answer("error", &value, |decision| {
                decision.error.clone().unwrap_or_default().into()
            })
        }),
        _ => return None,
    })
}

fn of(about: Authorization<'_>) -> Value<'_> {
    Value::Opaque(Opaque::Authorization(Arc::new(about)))
}

fn build<'a>(function: &str, on: &Value<'a>, text: &Value<'a>) -> Outcome<'a> {
    let (Value::Opaque(Opaque::Authorization(about)), Value::String(text)) = (on, text) else {
        return Err(no_overload(function, &[on, text]));
    };
    let text: &str = text;
    let next = match (function, &about.stage) {
        ("path" | "resource", _) if text.trim().is_empty() => {
            return Err(EvalError::new(format!("{function} must not be empty")));
        }
        ("path", Stage::Open) => about.at(Stage::Path(text.to_owned())),
        ("group", Stage::Open) => about.at(Stage::Group(text.to_owned())),
        ("resource", Stage::Group(group)) => about.at(Stage::Resource(Resource {
            group: group.clone(),
            resource: text.to_owned(),
            ..Resource::default()
        })),
        ("check", Stage::Path(path)) => about.ask(text, Target::Path(path.clone())),
        ("check", Stage::Resource(resource)) => about.ask(text, Target::Resource(resource.clone())),
        (_, Stage::Resource(resource)) => {
            let mut resource = resource.clone();
            let part = match function {
                "subresource" => &mut resource.subresource,
                "namespace" => &mut resource.namespace,
                "name" => &mut resource.name,
                "fieldSelector" => &mut resource.field_selector,
                "labelSelector" => &mut resource.label_selector,
                _ => return Err(no_overload(function, &[on, &Value::from(text)])),
            };
            text.clone_into(part);
            about.at(Stage::Resource(resource))
        }
        _ => return Err(no_overload(function, &[on, &Value::from(text)])),
    };
    Ok(of(next))
}

fn service_account<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (about, namespace, name) = match arguments {
        [
            Value::Opaque(Opaque::Authorization(about)),
            Value::String(namespace),
            Value::String(name),
        ] if matches!(about.stage, Stage::Open) => (about, namespace, name),
        _ => {
            let arguments: Vec<_> = arguments.iter().collect();
            return Err(no_overload("serviceAccount", &arguments));
        }
    };
    if !text::dns_subdomain(name).is_empty() {
        return Err(EvalError::new("Invalid service account name"));
    }
    if !text::dns_label(namespace).is_empty() {
        return Err(EvalError::new("Invalid service account namespace"));
    }
    Ok(of(Authorization {
        caller: Caller::ServiceAccount {
            namespace: namespace.to_string(),
            name: name.to_string(),
        },
        ..Authorization::clone(about)
    }))
}

fn answer<'a>(
    function: &str,
    value: &Value<'_>,
    answer: fn(&Decision) -> Value<'static>,
) -> Outcome<'a> {
    match value {
        Value::Opaque(Opaque::Authorization(about)) => match &about.stage {
            Stage::Decided(decision) => Ok(answer(decision)),
            _ => Err(no_overload(function, &[value])),
        },
        _ => Err(no_overload(function, &[value])),
    }
}
