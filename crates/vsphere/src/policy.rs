//! What is refused before it is written, by rules in CEL that the API server holds itself to:
//! there is no webhook that could be away.

use serde_json::{Value, json};

use crate::names::GROUP;

/// An identity that something uses is not deleted.
pub const IDENTITIES: &str = "identities-in-use.infrastructure.cluster.x-k8s.io";
/// A template of machines is not changed.
pub const TEMPLATES: &str = "machine-templates.infrastructure.cluster.x-k8s.io";

/// On what is deleted because it has been moved.
const MOVED: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// On what Cluster API asks for to see what a change would look like.
const TRIED: &str = "topology.cluster.x-k8s.io/dry-run";
/// Makes a policy of the system look at all tenants of an Insula. Nothing else knows it.
const ADMIT_TENANTS: &str = "multi-tenancy.k8s.io/admit-tenants";

/// Whose writes the policies look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of the space that they are in.
    Space,
    /// Those of all tenants of an Insula too.
    Tenants,
}

/// The policies, each with what puts it in force.
pub fn policies(reach: Reach) -> Vec<Value> {
    let mut all = Vec::new();
    for (name, spec) in [(IDENTITIES, identities()), (TEMPLATES, templates())] {
        let annotations = match reach {
            Reach::Space => json!({}),
            Reach::Tenants => json!({ ADMIT_TENANTS: "true" }),
        };
        all.push(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name, "annotations": annotations},
            "spec": spec,
        }));
        all.push(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }));
    }
    all
}

/// How many use it is what the operator counted last. The finalizer holds it in any case.
fn identities() -> Value {
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints("vsphereclusteridentities", "DELETE"),
        "variables": [
            {"name": "users", "expression":
                "has(oldObject.status) && has(oldObject.status.users) ? oldObject.status.users : 0"},
            {"name": "named", "expression":
                "has(oldObject.status) && has(oldObject.status.usedBy) ? oldObject.status.usedBy : []"},
            {"name": "moved", "expression": format!(
                "has(oldObject.metadata.annotations) && '{MOVED}' in oldObject.metadata.annotations")},
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

/// Machines that were made from it would not be what it says. Cluster API must be able to try
/// what it never does.
fn templates() -> Value {
    let expression = format!(
        "object.spec == oldObject.spec || (has(request.dryRun) && request.dryRun \
         && has(object.metadata.annotations) && '{TRIED}' in object.metadata.annotations)"
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints("vspheremachinetemplates", "UPDATE"),
        "validations": [{
            "expression": expression,
            "reason": "Invalid",
            "message": "a template cannot be changed, make another one",
        }],
    })
}

fn constraints(resource: &str, operation: &str) -> Value {
    json!({"resourceRules": [{
        "apiGroups": [GROUP],
        "apiVersions": ["*"],
        "resources": [resource],
        "operations": [operation],
    }]})
}
