//! Validating admission policies and their bindings.

mod binding;
mod evaluate;

use std::collections::BTreeMap;
use std::sync::Arc;

use insula_kinds::{Object, Value};

pub use binding::{Binding, Params};
pub use evaluate::PolicyDecision;

use crate::condition::Conditions;
use crate::criteria::{Criteria, EquivalentResources};
use crate::evaluation::Variable;
use crate::expression::{Compiler, Expression, Role};
use crate::refusal::Refusal;
use crate::request::{Request, Target, VersionedObjects, meta};
use crate::webhook::{ADMIT_TENANTS, FailurePolicy};

/// All policies and bindings of a space.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    policies: BTreeMap<String, Arc<Policy>>,
    /// Keyed by the names of the policy and of the binding.
    bindings: BTreeMap<(String, String), Arc<Binding>>,
}

/// A ValidatingAdmissionPolicy.
#[derive(Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Whether a policy of the system also applies to requests in tenants.
    pub admits_tenants: bool,
    /// The kind of its parameters, if it takes any.
    pub param_kind: Option<ParamKind>,
    criteria: Option<Criteria>,
    failure: FailurePolicy,
    conditions: Conditions,
    variables: Vec<Variable>,
    validations: Vec<Validation>,
    /// Audit annotations by key.
    audits: Vec<(String, Expression)>,
}

/// The kind of a policy's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamKind {
    /// `group/version`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// One validation of a policy.
#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

impl Policies {
    /// Inserts or replaces a policy.
    pub fn put_policy(&mut self, object: &Object) {
        let policy = Policy::read(object);
        self.policies.insert(policy.name.clone(), Arc::new(policy));
    }

    /// Inserts or replaces a binding.
    pub fn put_binding(&mut self, object: &Object) {
        let binding = Binding::read(object);
        self.remove_binding(&binding.name);
        let key = (binding.policy.clone(), binding.name.clone());
        self.bindings.insert(key, Arc::new(binding));
    }

    /// Removes a policy.
    pub fn remove_policy(&mut self, name: &str) {
        self.policies.remove(name);
    }

    /// Removes a binding.
    pub fn remove_binding(&mut self, name: &str) {
        self.bindings.retain(|(_, known), _| known != name);
    }

    /// The policies sorted by name, each with its bindings sorted by name. Policies without
    /// bindings are inactive and omitted.
    pub fn active(&self) -> impl Iterator<Item = (&Arc<Policy>, Vec<&Arc<Binding>>)> {
        self.policies.values().filter_map(|policy| {
            let from = (policy.name.clone(), String::new());
            let bindings = self.bindings.range(from..);
            let own = bindings.take_while(|((of, _), _)| *of == policy.name);
            let own: Vec<_> = own.map(|(_, binding)| binding).collect();
            (!own.is_empty()).then_some((policy, own))
        })
    }

    /// Reports whether no policy is active.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() || self.bindings.is_empty()
    }
}

impl Policy {
    fn read(object: &Object) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let param_kind = spec.get("paramKind").filter(|kind| kind.is_object());
        let failure = FailurePolicy::read(&spec["failurePolicy"]);
        let mut compiler = Compiler::new(param_kind.is_some()).composed();
        let variables = list(&spec["variables"]).map(|variable| {
            let name = text(&variable["name"]);
            let made = compiler.variable(name, text(&variable["expression"]));
            (name.to_owned(), made)
        });
        let variables = variables.collect();
        let validations = list(&spec["validations"]);
        let audits = list(&spec["auditAnnotations"]);
        let annotations = object
            .get("metadata")
            .and_then(|meta| meta.get("annotations"));
        let admits = annotations.and_then(|all| all.get(ADMIT_TENANTS)?.as_str());
        Self {
            name: meta(Some(object), "name").to_owned(),
            admits_tenants: admits == Some("true"),
            param_kind: param_kind.map(|kind| ParamKind {
                api_version: text(&kind["apiVersion"]).to_owned(),
                kind: text(&kind["kind"]).to_owned(),
            }),
            criteria: spec
                .get("matchConstraints")
                .map(Criteria::from_match_resources),
            failure,
            conditions: Conditions::new(&spec["matchConditions"], &compiler, failure),
            variables,
            validations: validations
                .map(|validation| Validation::read(validation, &compiler))
                .collect(),
            audits: audits
                .map(|audit| {
                    let source = text(&audit["valueExpression"]).trim();
                    let made = compiler.expression(source, Role::Audit);
                    (text(&audit["key"]).to_owned(), made)
                })
                .collect(),
        }
    }

    /// Matches the request. Returns the resource and kind as which it is evaluated.
    ///
    /// # Errors
    ///
    /// If the selectors cannot be evaluated.
    pub fn matches(
        &self,
        request: &Request<'_>,
        subject: VersionedObjects<'_>,
        namespace: Option<&Object>,
        equivalents: &dyn EquivalentResources,
    ) -> Result<Option<Target>, Refusal> {
        if request.target.is_exempt() || request.target.is_review() {
            return Ok(None);
        }
        match &self.criteria {
            Some(criteria) => criteria.matches(request, subject, namespace, equivalents),
            None => {
                let why = "policy contained no match constraints, a required field";
                Err(Refusal::internal(why))
            }
        }
    }
}

impl Validation {
    fn read(validation: &Value, compiler: &Compiler) -> Self {
        let message_expression = text(&validation["messageExpression"]);
        Self {
            expression: compiler.expression(text(&validation["expression"]), Role::Validation),
            message: text(&validation["message"]).trim().to_owned(),
            message_expression: (!message_expression.trim().is_empty())
                .then(|| compiler.expression(message_expression, Role::Message)),
            reason: match text(&validation["reason"]) {
                "" => "Invalid".to_owned(),
                reason => reason.to_owned(),
            },
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
