//! Match conditions of webhooks and policies, and the variables of their expressions.

use insula_cel::{Activation, Authorizer, Map, Resource, Value as Cel};
use insula_kinds::{Object, Value};
use serde_json::json;

use crate::evaluation::{self, CONDITIONS_COST_BUDGET, Outcome, Variable};
use crate::expression::{Compiler, Expression, Role};
use crate::request::{Request, Target, VersionedObjects};
use crate::webhook::FailurePolicy;

/// The variables of admission expressions.
pub struct Context<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// The objects, in the version of the target.
    pub subject: VersionedObjects<'a>,
    authorizer: &'a dyn Authorizer,
    request_variable: Value,
    namespace: Value,
}

impl<'a> Context<'a> {
    /// Builds the context of a request that matched as `target`. `namespace` is the object of
    /// its namespace, if it has one.
    pub fn new(
        request: &'a Request<'a>,
        target: &Target,
        subject: VersionedObjects<'a>,
        namespace: Option<&Object>,
        authorizer: &'a dyn Authorizer,
    ) -> Self {
        // Requests for a Namespace carry its name as namespace, but the kind is cluster-scoped.
        let of_namespaces =
            request.target.kind.kind == "Namespace" && request.target.kind.group.is_empty();
        let namespace = namespace.filter(|_| !of_namespaces);
        Self {
            request,
            subject,
            authorizer,
            request_variable: request_variable(request, target),
            namespace: namespace.map_or(Value::Null, namespace_variable),
        }
    }

    /// Builds the variables, with these parameters.
    pub(crate) fn activation<'s>(&'s self, params: Option<&'s Object>) -> Activation<'s> {
        let object = |object: Option<&'s Object>| {
            object.map_or(Cel::Null, |object| Cel::Map(Map::Dynamic(object)))
        };
        let resource = &self.request.target.resource;
        let own = Resource {
            group: resource.group.clone(),
            resource: resource.resource.clone(),
            subresource: self.request.subresource.to_owned(),
            namespace: self.request.namespace.to_owned(),
            name: self.request.name.to_owned(),
            ..Resource::default()
        };
        Activation::new()
            .with("object", object(self.subject.object))
            .with("oldObject", object(self.subject.old))
            .with("params", object(params))
            .with("request", Cel::dynamic(&self.request_variable))
            .with("namespaceObject", Cel::dynamic(&self.namespace))
            .with("authorizer", Cel::authorizer(self.authorizer))
            .with(
                "authorizer.requestResource",
                Cel::request_resource(self.authorizer, own),
            )
    }
}

/// Match conditions, all of which must hold.
#[derive(Debug)]
pub(crate) struct Conditions {
    expressions: Vec<Expression>,
    failure: FailurePolicy,
}

/// The result of evaluating match conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MatchResult {
    Match,
    NoMatch,
    /// An evaluation failed, for this reason.
    Failed(String),
}

impl Conditions {
    pub fn new(list: &Value, compiler: &Compiler, failure: FailurePolicy) -> Self {
        let list = list.as_array().map_or(&[][..], Vec::as_slice).iter();
        let sources = list.map(|one| one["expression"].as_str().unwrap_or_default().trim());
        Self {
            expressions: sources
                .map(|source| compiler.expression(source, Role::Condition))
                .collect(),
            failure,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Evaluates the conditions. A false one takes precedence over errors.
    pub fn evaluate(
        &self,
        context: &Context<'_>,
        params: Option<&Object>,
        variables: &[Variable],
    ) -> MatchResult {
        if self.is_empty() {
            return MatchResult::Match;
        }
        let all: Vec<_> = self.expressions.iter().map(Some).collect();
        let mut left = CONDITIONS_COST_BUDGET;
        let activation = context.activation(params);
        let outcomes = match evaluation::evaluate_all(&all, variables, activation, &mut left) {
            Ok(outcomes) => outcomes,
            Err(why) => return self.failed(why),
        };
        let mut faults: Vec<String> = Vec::new();
        for outcome in outcomes.into_iter().flatten() {
            match outcome {
                Ok(Outcome::Bool(false)) => return MatchResult::NoMatch,
                Ok(_) => {}
                Err(fault) if faults.contains(&fault) => {}
                Err(fault) => faults.push(fault),
            }
        }
        match faults.as_slice() {
            [] => MatchResult::Match,
            [one] => self.failed(one.clone()),
            several => self.failed(format!("[{}]", several.join(", "))),
        }
    }

    fn failed(&self, why: String) -> MatchResult {
        match self.failure {
            FailurePolicy::Fail => MatchResult::Failed(why),
            FailurePolicy::Ignore => MatchResult::NoMatch,
        }
    }
}

/// Builds the variable `request`.
fn request_variable(request: &Request<'_>, target: &Target) -> Value {
    let mut asked = json!({
        "uid": "",
        "kind": target.kind,
        "resource": target.resource,
        "requestKind": request.target.kind,
        "requestResource": request.target.resource,
        "operation": request.operation.as_str(),
        "userInfo": request.user,
        "dryRun": request.dry_run,
        "options": request.options,
    });
    for (member, value) in [
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
        ("name", request.name),
        ("namespace", request.namespace),
    ] {
        if !value.is_empty() {
            asked[member] = value.into();
        }
    }
    asked
}

/// Builds the variable `namespaceObject`.
fn namespace_variable(namespace: &Object) -> Value {
    let members = [
        "name",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let metadata = namespace.get("metadata").unwrap_or(&Value::Null);
    let known = members.iter().filter_map(|member| {
        let value = metadata.get(*member)?;
        Some(((*member).to_owned(), value.clone()))
    });
    let mut shown = json!({"metadata": known.collect::<Object>()});
    for part in ["spec", "status"] {
        shown[part] = namespace.get(part).cloned().unwrap_or_else(|| json!({}));
    }
    shown
}
