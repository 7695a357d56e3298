//! Policy bindings: the requests, parameters and actions of a policy.

use insula_kinds::selector::LabelSelector;
use insula_kinds::{Object, Scope, Value};

use super::{ParamKind, Policy, list, text};
use crate::criteria::{Criteria, EquivalentResources};
use crate::refusal::Refusal;
use crate::request::{Request, VersionedObjects, meta};

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
pub enum Params<'a> {
    /// The policy is evaluated once, without parameters.
    None,
    /// The policy is evaluated with one object.
    One {
        /// The object's namespace, if its kind is namespaced.
        namespace: Option<String>,
        /// The object's name.
        name: &'a str,
    },
    /// The policy is evaluated once for each selected object.
    Selected {
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
            criteria: resources.map(Criteria::from_match_resources),
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
        subject: VersionedObjects<'_>,
        namespace: Option<&Object>,
        equivalents: &dyn EquivalentResources,
    ) -> Result<bool, Refusal> {
        let Some(criteria) = &self.criteria else {
            return Ok(true);
        };
        let found = criteria.matches(request, subject, namespace, equivalents)?;
        Ok(found.is_some())
    }

    /// Resolves the parameter reference. `scope` is the scope of the parameter kind, `None` if
    /// that kind is not served.
    ///
    /// # Errors
    ///
    /// If the reference cannot be used for this request, with the reason.
    pub fn resolve_params(
        &self,
        policy: &Policy,
        request: &Request<'_>,
        scope: Option<Scope>,
    ) -> Result<Params<'_>, String> {
        let (Some(kind), Some(params)) = (&policy.param_kind, &self.params) else {
            return Ok(Params::None);
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
            ("", Some(Ok(selector))) => Ok(Params::Selected {
                namespace,
                selector,
            }),
            ("", Some(Err(why))) => Err(why.clone()),
            ("", None) => Err("one of name or selector must be provided".to_owned()),
            (_, Some(_)) => {
                Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned())
            }
            (name, None) => Ok(Params::One { namespace, name }),
        }
    }

    /// Handles that no parameters were found.
    ///
    /// # Errors
    ///
    /// If the binding requires parameters, with the reason.
    pub fn handle_missing_params(&self) -> Result<(), String> {
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
