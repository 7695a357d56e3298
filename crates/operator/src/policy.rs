//! Admission policies in CEL. The API server evaluates them itself, so no webhook has to be
//! available.

use serde_json::{Value, json};

/// Annotation that extends a policy of the system to all tenants of an Insula.
const ADMIT_TENANTS: &str = "multi-tenancy.k8s.io/admit-tenants";

/// Which requests policies apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Requests in the policies' own space.
    Space,
    /// Also requests in all tenants' spaces of an Insula.
    Tenants,
}

/// A ValidatingAdmissionPolicy with a binding of its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The name.
    pub name: &'static str,
    /// The `spec` of the policy.
    pub spec: Value,
    /// What happens to a request that violates it: `Deny`, `Warn` or `Audit`.
    pub action: &'static str,
}

impl Policy {
    /// Returns the policy and its binding.
    pub fn objects(self, reach: Reach) -> [Value; 2] {
        let Self { name, spec, action } = self;
        let annotations = match reach {
            Reach::Space => json!({}),
            Reach::Tenants => json!({ ADMIT_TENANTS: "true" }),
        };
        let version = "admissionregistration.k8s.io/v1";
        [
            json!({
                "apiVersion": version,
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": name, "annotations": annotations},
                "spec": spec,
            }),
            json!({
                "apiVersion": version,
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": name},
                "spec": {"policyName": name, "validationActions": [action]},
            }),
        ]
    }
}

/// Returns the `matchConstraints` for one operation on a resource, in all its versions.
pub fn constraints(group: &str, resource: &str, operation: &str) -> Value {
    json!({"resourceRules": [{
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": [resource],
        "operations": [operation],
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_reaches_tenants_only_if_it_is_told_to() {
        for (reach, annotations) in [
            (Reach::Space, json!({})),
            (
                Reach::Tenants,
                json!({"multi-tenancy.k8s.io/admit-tenants": "true"}),
            ),
        ] {
            let policy = Policy {
                name: "no-widgets",
                spec: json!({"matchConstraints": constraints("example.org", "widgets", "CREATE")}),
                action: "Deny",
            };
            let [policy, binding] = policy.objects(reach);
            assert_eq!(policy["metadata"]["annotations"], annotations);
            let rules = &policy["spec"]["matchConstraints"]["resourceRules"];
            assert_eq!(rules[0]["resources"], json!(["widgets"]));
            let bound = json!({"policyName": "no-widgets", "validationActions": ["Deny"]});
            assert_eq!(binding["spec"], bound);
        }
    }
}
