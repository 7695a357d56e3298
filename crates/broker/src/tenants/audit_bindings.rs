//! Remaining permissions after a token rotation: a holder of the administrator's token may
//! have granted permissions to others, which a new token does not revoke.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{RoleBinding, Subject};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::names::{ADMIN, AXON_ADMIN, CLUSTER};
use crate::report::Report;
use crate::tenant::Tenant;

/// The prefix of the service accounts of clusters.
const MEMBER_PREFIX: &str = "cluster-";

/// The subjects with permissions in a broker's namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct BindingAudit {
    /// Unexpected bindings: what they grant, and to which subject.
    unexpected: BTreeSet<String>,
    /// The service accounts of joined clusters.
    members: BTreeSet<String>,
}

/// Reports who else has permissions.
pub(super) async fn report(
    bindings: &Api<RoleBinding>,
    tenant: &Tenant,
    namespace: &str,
    report: &dyn Report,
) {
    let listed = match bindings.list(&ListParams::default()).await {
        Ok(listed) => listed.items,
        Err(_) => {
            report.warn(&format!(
                "The role bindings in namespace {namespace} could not be checked: an administrator can list them with `kubectl -n {namespace} get rolebindings -o wide`"
            ));
            return;
        }
    };
    let audit = audit(&listed, tenant, namespace);
    for unexpected in &audit.unexpected {
        report.warn(&format!(
            "{unexpected}: if this is unexpected, delete it (`kubectl -n {namespace} delete rolebinding NAME`)"
        ));
    }
    if !audit.members.is_empty() {
        let members: Vec<_> = audit.members.iter().map(String::as_str).collect();
        report.warn(&format!(
            "Joined clusters can read the new token too: {}. To exclude one, run `kubectl -n {namespace} delete serviceaccount NAME`, then rotate the token again",
            members.join(", ")
        ));
    }
}

fn audit(bindings: &[RoleBinding], tenant: &Tenant, namespace: &str) -> BindingAudit {
    let mut audit = BindingAudit::default();
    let named: Vec<_> = tenant
        .spec
        .admins
        .iter()
        .flatten()
        .map(subject_name)
        .collect();
    for binding in bindings {
        let role = binding.role_ref.name.as_str();
        let is_role = binding.role_ref.kind == "Role";
        for subject in binding.subjects.iter().flatten() {
            let own = subject.kind == "ServiceAccount"
                && subject
                    .namespace
                    .as_deref()
                    .is_none_or(|said| said == namespace);
            let subject_name = subject_name(subject);
            let is_known = match (is_role, role) {
                (true, ADMIN) => (own && subject.name == ADMIN) || named.contains(&subject_name),
                // The operator manages that binding.
                (true, AXON_ADMIN) => binding.name_any() == AXON_ADMIN,
                (true, CLUSTER) if own && subject.name.starts_with(MEMBER_PREFIX) => {
                    audit.members.insert(subject.name.clone());
                    true
                }
                _ => false,
            };
            if !is_known {
                let (name, kind) = (binding.name_any(), &binding.role_ref.kind);
                audit.unexpected.insert(format!(
                    "RoleBinding {name} gives {subject_name} the {kind} {role}"
                ));
            }
        }
    }
    audit
}

/// Formats a subject for display and comparison.
fn subject_name(subject: &Subject) -> String {
    let Subject {
        kind,
        name,
        namespace,
        ..
    } = subject;
    match namespace.as_deref().filter(|_| kind == "ServiceAccount") {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tenant::TenantSpec;

    fn binding(name: &str, role: Value, subject: Value) -> RoleBinding {
        let binding = json!({
            "metadata": {"name": name}, "roleRef": role, "subjects": [subject],
        });
        serde_json::from_value(binding).unwrap()
    }

    fn role(name: &str) -> Value {
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name})
    }

    fn account(name: &str, namespace: &str) -> Value {
        json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
    }

    #[test]
    fn unexpected_bindings_are_reported() {
        let jane = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"});
        let eve = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"});
        let wide =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ADMIN});
        let spec = TenantSpec {
            admins: Some(vec![serde_json::from_value(jane.clone()).unwrap()]),
            ..TenantSpec::default()
        };
        let tenant = Tenant::new("acme", spec);
        for (binding, unexpected) in [
            (binding("b", role(ADMIN), account(ADMIN, "n")), None),
            (binding("b", role(ADMIN), jane.clone()), None),
            (binding(AXON_ADMIN, role(AXON_ADMIN), eve.clone()), None),
            (
                binding("b", role(ADMIN), eve.clone()),
                Some("RoleBinding b gives User eve the Role submariner-k8s-broker-admin"),
            ),
            (
                binding("b", role(ADMIN), account("door", "n")),
                Some(
                    "RoleBinding b gives ServiceAccount n/door the Role submariner-k8s-broker-admin",
                ),
            ),
            (
                binding("b", role(ADMIN), account(ADMIN, "m")),
                Some(
                    "RoleBinding b gives ServiceAccount m/submariner-k8s-broker-admin the Role submariner-k8s-broker-admin",
                ),
            ),
            (
                binding("b", role(AXON_ADMIN), eve.clone()),
                Some("RoleBinding b gives User eve the Role axon-admin"),
            ),
            (
                binding("b", role("copy"), eve.clone()),
                Some("RoleBinding b gives User eve the Role copy"),
            ),
            (
                binding("b", role(CLUSTER), eve.clone()),
                Some("RoleBinding b gives User eve the Role submariner-k8s-broker-cluster"),
            ),
            (
                binding("b", wide, account(ADMIN, "n")),
                Some(
                    "RoleBinding b gives ServiceAccount n/submariner-k8s-broker-admin the ClusterRole submariner-k8s-broker-admin",
                ),
            ),
        ] {
            let audit = audit(std::slice::from_ref(&binding), &tenant, "n");
            let found: Vec<_> = audit.unexpected.iter().map(String::as_str).collect();
            assert_eq!(found, unexpected.into_iter().collect::<Vec<_>>());
            assert!(audit.members.is_empty());
        }
        let member = binding("b", role(CLUSTER), account("cluster-east", "n"));
        let audit = audit(&[member], &tenant, "n");
        assert!(audit.unexpected.is_empty());
        assert_eq!(audit.members, ["cluster-east".to_owned()].into());
    }
}
