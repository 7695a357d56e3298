//! The `authorizer` of CEL expressions: it decides within the space of the request.

use insula_access::rbac::{Attributes as RbacAttributes, ResourceAttributes, User};
use insula_cel::{AuthorizationRequest, Authorizer, Caller, Decision, Target};
use insula_core::Spaces;

use super::Attributes;
use crate::pipeline::authorize::{AccessDecision, decide_cached, decide_within};

/// Decides for the caller of a request, and for service accounts of its space.
pub(super) struct CelAuthorizer<'a>(pub &'a Attributes<'a>);

impl Authorizer for CelAuthorizer<'_> {
    fn decide(&self, request: &AuthorizationRequest) -> Decision {
        let verb = request.verb.as_str();
        let verdict = match &request.on {
            Target::Path(path) => {
                self.evaluate(&request.caller, &RbacAttributes::NonResource { verb, path })
            }
            Target::Resource(on) => {
                let action = ResourceAttributes {
                    verb,
                    group: &on.group,
                    resource: &on.resource,
                    subresource: given(&on.subresource),
                    namespace: given(&on.namespace),
                    name: given(&on.name),
                };
                self.evaluate(&request.caller, &RbacAttributes::Resource(action))
            }
        };
        Decision {
            allowed: verdict.allowed,
            reason: verdict.reason,
            error: None,
        }
    }
}

impl CelAuthorizer<'_> {
    fn evaluate(&self, caller: &Caller, action: &RbacAttributes<'_>) -> AccessDecision {
        let admitted = self.0;
        let space = &admitted.address.space;
        match caller {
            Caller::Requester => {
                let spaces = Spaces::One(space.clone());
                decide_cached(
                    admitted.registry,
                    admitted.caller.principal(),
                    &spaces,
                    action,
                )
            }
            Caller::ServiceAccount { namespace, name } => {
                let user = format!("system:serviceaccount:{namespace}:{name}");
                let groups = [
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ];
                let who = User {
                    name: &user,
                    groups: &groups,
                };
                decide_within(admitted.registry, space, who, action)
            }
        }
    }
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
