//! Policy bindings: the requests, parameters and actions of a policy.

use insula_kinds::selector::LabelSelector;
use insula_kinds::{Object, Scope, Value};

use super::{ParamKind, Policy, list, text};
use crate::criteria::{Criteria, Served};
use crate::refusal::Refusal;
use crate::request::{Request, Subject, meta};

/// A ValidatingAdmissionPolicyBinding.
#[derive(Debug)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// The name of the policy.
    pub policy: String,
    /// The actions for requests that fail validation.
    pub(super) actions: Vec<String>,
    criteria: Option<Criteria>,
    params: Option<ParamRef>,
}

/// The parameters that a policy is evaluated with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The policy is evaluated once, without parameters.
    Nothing,
    /// The policy is evaluated with one object.
    One {
        /// The object's namespace, if its kind is namespaced.
        namespace: Option<String>,
        /// The object's name.
        name: &'a str,
    },
    /// The policy is evaluated once for each selected object.
    All {
        /// The objects' namespace, if their kind is namespaced.
        namespace: Option<String>,
        /// The selector.
        selector: &'a LabelSelector,
    },
}

#[derive(Debug)]
struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Result<LabelSelector, String>>,
    /// Whether requests are rejected if no parameters exist.
    needed: bool,
}

impl Binding {
    pub(super) fn read(object: &Object) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let reference = spec.get("paramRef").filter(|of| of.is_object());
        let resources = spec.get("matchResources").filter(|of| of.is_object());
        let actions = list(&spec["validationActions"]).map(text);
        Self {
            name: meta(Some(object), "name").to_owned(),
            policy: text(&spec["policyName"]).to_owned(),
            actions: actions.map(str::to_owned).collect(),
            criteria: resources.map(Criteria::of_resources),
            params: reference.map(ParamRef::read),
        }
    }

    /// Matches the request.
    ///
    /// # Errors
    ///
    /// If the selectors cannot be evaluated.
    pub fn matches(
        &self,
        request: &Request<'_>,
        subject: Subject<'_>,
        namespace: Option<&Object>,
        served: &dyn Served,
    ) -> Result<bool, Refusal> {
        let Some(criteria) = &self.criteria else {
            return Ok(true);
        };
        let found = criteria.matches(request, subject, namespace, served)?;
        Ok(found.is_some())
    }

    /// Resolves the parameter reference. `scope` is the scope of the parameter kind, `None` if
    /// that kind is not served.
    ///
    /// # Errors
    ///
    /// If the reference cannot be used for this request, with the reason.
    pub fn wants(
        &self,
        policy: &Policy,
        request: &Request<'_>,
        scope: Option<Scope>,
    ) -> Result<Wanted<'_>, String> {
        let (Some(kind), Some(params)) = (&policy.param_kind, &self.params) else {
            return Ok(Wanted::Nothing);
        };
        let scope = scope.ok_or_else(|| unknown(kind))?;
        let namespace = match (scope, params.namespace.as_str(), request.namespace) {
            (Scope::Namespaced, "", "") => {
                return Err(
                    "cannot use namespaced paramRef in policy binding that matches \
                     cluster-scoped resources"
                        .to_owned(),
                );
            }
            (Scope::Namespaced, "", own) => Some(own.to_owned()),
            (Scope::Namespaced, named, _) => Some(named.to_owned()),
            (Scope::Cluster, "", _) => None,
            (Scope::Cluster, ..) => {
                return Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                        .to_owned(),
                );
            }
        };
        match (params.name.as_str(), &params.selector) {
            ("", Some(Ok(selector))) => Ok(Wanted::All {
                namespace,
                selector,
            }),
            ("", Some(Err(why))) => Err(why.clone()),
            ("", None) => Err("one of name or selector must be provided".to_owned()),
            (_, Some(_)) => {
                Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned())
            }
            (name, None) => Ok(Wanted::One { namespace, name }),
        }
    }

    /// Handles that no parameters were found.
    ///
    /// # Errors
    ///
    /// If the binding requires parameters, with the reason.
    pub fn without_params(&self) -> Result<(), String> {
        match &self.params {
            Some(params) if params.needed => Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
            ),
            _ => Ok(()),
        }
    }
}

impl ParamRef {
    fn read(reference: &Value) -> Self {
        let selector = reference.get("selector").and_then(Value::as_object);
        Self {
            name: text(&reference["name"]).to_owned(),
            namespace: text(&reference["namespace"]).to_owned(),
            selector: selector.map(LabelSelector::from_object),
            needed: reference["parameterNotFoundAction"] == "Deny",
        }
    }
}

fn unknown(kind: &ParamKind) -> String {
    let ParamKind { api_version, kind } = kind;
    format!("paramKind kind `&ParamKind{{APIVersion:{api_version},Kind:{kind},}}` not known")
}
