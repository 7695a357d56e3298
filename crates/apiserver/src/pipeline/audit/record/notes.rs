//! The facts about a request that the pipeline adds to its record.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;
use insula_core::{Principal, Spaces, Verb};
use insula_kinds::time::Time;
use serde_json::Value;

use super::super::body::{Captured, SentBody};
use crate::pipeline::authenticate::Peer;
use crate::pipeline::route::{Objects, ResourcePath, Route, Target};
use crate::request::annotations::Annotation;
use crate::status::Result;

/// The decision of the authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allow {
        /// The binding that allows it.
        reason: Cow<'static, str>,
    },
    /// The request is denied.
    Forbid {
        /// The message of the denial.
        reason: Cow<'static, str>,
    },
}

/// The request as it was received.
pub struct ReceivedRequest<'a> {
    pub id: &'a HeaderValue,
    pub parts: &'a Parts,
    pub peer: &'a Peer,
    pub received: Time,
}

/// The facts that the pipeline adds.
#[derive(Debug, Default)]
pub struct Notes {
    pub path: Option<ResourcePath>,
    pub spaces: Option<Spaces>,
    pub principal: Option<Arc<Principal>>,
    pub impersonated: Option<Arc<Principal>>,
    /// The verb of constrained impersonation, if that was used.
    pub constraint: Option<&'static str>,
    pub decision: Option<Decision>,
    pub name: Option<String>,
    /// Annotations of admission plugins.
    pub annotations: Vec<Annotation>,
    /// The objects of a path that is not served, if there is a policy.
    pub unserved: Option<Objects>,
    /// The details of a deletion's `Status`.
    pub deleted: Option<Value>,
    /// Whether messages may contain parts of the body.
    pub body_read: bool,
    /// The body of the request, if the policy asks for it.
    pub sent: Option<SentBody>,
    /// The body of the response, if the policy asks for it.
    pub responded: Option<Captured>,
}

impl Notes {
    /// Returns the facts that follow from the route.
    pub fn of(route: &Result<Route>) -> Self {
        let Ok(route) = route else {
            return Self::default();
        };
        Self {
            path: match &route.target {
                Target::Resource(path) => Some(path.clone()),
                Target::Document(_) => None,
            },
            spaces: route.named.clone(),
            ..Self::default()
        }
    }

    /// Whether the request is a watch.
    pub fn is_watch(&self) -> bool {
        let verb = self.path.as_ref().map(|path| path.verb);
        verb == Some(Verb::Watch)
    }

    /// Whether Kubernetes counts the request as long-running, which then has an event when its
    /// response starts.
    pub fn is_long_running(&self) -> bool {
        let subresource = self
            .path
            .as_ref()
            .and_then(|path| path.subresource.as_deref());
        let streams = ["attach", "exec", "log", "portforward", "proxy"];
        self.is_watch() || subresource.is_some_and(|name| streams.contains(&name))
    }
}
