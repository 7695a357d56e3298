//! The functions of the authorizer, which build a request and pass it to an
//! [`Authorizer`](crate::Authorizer).

use insula_kinds::text;

use super::{Body, no_overload};
use crate::error::EvalError;
use crate::value::{Caller, Decision, Opaque, Outcome, Resource, Stage, Target, Value};

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
    Ok(next.into())
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
    let about = about.with_caller(Caller::ServiceAccount {
        namespace: namespace.to_string(),
        name: name.to_string(),
    });
    Ok(about.into())
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
