//! What expressions are told about who may do what: in the space of the request, and with
//! the rights that are known there.

use insula_access::rbac::{Attributes as Deed, ResourceAttributes, User};
use insula_cel::{AuthorizationRequest, Authorizer, Caller, Decision, Target};
use insula_core::Spaces;

use super::Act;
use crate::pipeline::authorize::{AccessDecision, decide_cached, decide_within};

/// Decides for whoever sent a request, and for service accounts of its space.
pub(super) struct Decider<'a>(pub &'a Act<'a>);

impl Authorizer for Decider<'_> {
    fn decide(&self, request: &AuthorizationRequest) -> Decision {
        let verb = request.verb.as_str();
        let verdict = match &request.on {
            Target::Path(path) => self.judge(&request.caller, &Deed::NonResource { verb, path }),
            Target::Resource(on) => {
                let deed = ResourceAttributes {
                    verb,
                    group: &on.group,
                    resource: &on.resource,
                    subresource: given(&on.subresource),
                    namespace: given(&on.namespace),
                    name: given(&on.name),
                };
                self.judge(&request.caller, &Deed::Resource(deed))
            }
        };
        Decision {
            allowed: verdict.allowed,
            reason: verdict.reason,
            error: None,
        }
    }
}

impl Decider<'_> {
    fn judge(&self, caller: &Caller, deed: &Deed<'_>) -> AccessDecision {
        let act = self.0;
        let space = &act.address.space;
        match caller {
            Caller::Requester => {
                let spaces = Spaces::One(space.clone());
                decide_cached(act.registry, act.by.principal(), &spaces, deed)
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
                decide_within(act.registry, space, who, deed)
            }
        }
    }
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
