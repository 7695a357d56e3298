//! The admission policies.

use insula_capi::names::{DELETE_FOR_MOVE, TOPOLOGY_DRY_RUN};
pub use insula_operator::policy::Reach;
use insula_operator::policy::{Policy, constraints};
use serde_json::{Value, json};

use crate::names::GROUP;

/// Name of the policy that forbids deleting an identity in use.
pub const IDENTITIES: &str = "identities-in-use.infrastructure.cluster.x-k8s.io";
/// Name of the policy that makes machine templates immutable.
pub(crate) const TEMPLATES: &str = "machine-templates.infrastructure.cluster.x-k8s.io";
/// Name of the policy that warns of the older name of an identity's `secretName`.
const SECRET_REFERENCES: &str = "identity-secret-references.infrastructure.cluster.x-k8s.io";

/// Returns the policies with their bindings.
pub fn policies(reach: Reach) -> Vec<Value> {
    let policies = [
        (IDENTITIES, identities(), "Deny"),
        (TEMPLATES, templates(), "Deny"),
        (SECRET_REFERENCES, secret_references(), "Warn"),
    ];
    let policies = policies.map(|(name, spec, action)| Policy { name, spec, action });
    let objects = policies.into_iter().flat_map(|it| it.objects(reach));
    objects.collect()
}

/// The policy uses the number of users that the operator counted last. The finalizer protects an
/// identity in any case.
fn identities() -> Value {
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints(GROUP, "vsphereclusteridentities", "DELETE"),
        "variables": [
            {"name": "users", "expression":
                "has(oldObject.status) && has(oldObject.status.users) ? oldObject.status.users : 0"},
            {"name": "named", "expression":
                "has(oldObject.status) && has(oldObject.status.usedBy) ? oldObject.status.usedBy : []"},
            {"name": "moved", "expression": format!(
                "has(oldObject.metadata.annotations) && '{DELETE_FOR_MOVE}' in oldObject.metadata.annotations")},
        ],
        "validations": [{
            "expression": "variables.users == 0 || variables.moved",
            "reason": "Forbidden",
            "message": "it is in use",
            "messageExpression": "'it is used by ' + string(variables.users) + ': ' \
                + variables.named.join(', ') \
                + (variables.users > size(variables.named) ? ' and others' : '') \
                + '. Delete them or let them use another identity first; `insula identity users ' \
                + 'vsphereclusteridentity/' + oldObject.metadata.name + '` shows them all'",
        }],
    })
}

/// Existing machines would no longer match a changed template. Dry-run requests of Cluster API's
/// topology controller are admitted.
fn templates() -> Value {
    let expression = format!(
        "object.spec == oldObject.spec || (has(request.dryRun) && request.dryRun \
         && has(object.metadata.annotations) && '{TOPOLOGY_DRY_RUN}' in object.metadata.annotations)"
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints(GROUP, "vspheremachinetemplates", "UPDATE"),
        "validations": [{
            "expression": expression,
            "reason": "Invalid",
            "message": "a template cannot be changed, create another one",
        }],
    })
}

/// The field has the name of the design document. It is converted, and the client learns its
/// successor.
fn secret_references() -> Value {
    json!({
        "failurePolicy": "Ignore",
        "matchConstraints": {
            // Requests in other versions do not have the field, and need no conversion.
            "matchPolicy": "Exact",
            "resourceRules": [{
                "apiGroups": [GROUP],
                "apiVersions": ["v1beta1"],
                "resources": ["vsphereclusteridentities"],
                "operations": ["CREATE", "UPDATE"],
            }],
        },
        "validations": [{
            "expression": "!has(object.spec.secretRef)",
            "message": "spec.secretRef is deprecated; use spec.secretName",
        }],
    })
}
