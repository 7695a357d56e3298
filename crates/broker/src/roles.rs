//! The rules of every role.
//!
//! Kubernetes lets no user grant permissions that they do not have. So the rules of a broker's
//! administrator contain those of the clusters that join, and the rules of the operator
//! contain those of the administrators it creates; neither needs `escalate` or `bind`. The
//! tests below check this.

use insula_operator::roles::{CORE, RBAC, READ, events, leader_election, rule};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::names::ADMIN;

const ALL_VERBS: &[&str] = &[
    "create", "get", "list", "watch", "patch", "update", "delete",
];
const WITHOUT_PATCH: &[&str] = &["create", "get", "list", "watch", "update", "delete"];

const SUBMARINER: &str = "submariner.io";
const MULTICLUSTER: &str = "multicluster.x-k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";

/// The rules of a classic broker's administrator, as in Submariner: it does not create the
/// Broker.
pub fn admin() -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(SUBMARINER, &["brokers"], &["get", "list"]),
        rule(
            RBAC,
            &["rolebindings"],
            &["create", "get", "list", "delete"],
        ),
    ];
    rules.extend(common_admin_rules());
    rules
}

/// The rules of a tenant's administrator, who also deploys the broker: in its own namespace
/// only.
pub fn tenant_admin(namespace: &str) -> Vec<PolicyRule> {
    let mut own = rule(CORE, &["namespaces"], &["get"]);
    own.resource_names = Some(vec![namespace.to_owned()]);
    let mut rules = vec![
        own,
        rule(SUBMARINER, &["brokers"], ALL_VERBS),
        rule(
            RBAC,
            &["rolebindings"],
            &["create", "get", "list", "update", "patch", "delete"],
        ),
        rule(
            RBAC,
            &["roles"],
            &["get", "list", "create", "update", "patch"],
        ),
        // To see why an object was refused.
        rule(CORE, &["resourcequotas"], &["get", "list"]),
    ];
    rules.extend(common_admin_rules());
    rules
}

fn common_admin_rules() -> Vec<PolicyRule> {
    let mut rules = exchanged_objects();
    rules.extend([
        // Submariner's clusters export services on themselves, so that their role lacks these;
        // the administrator manages every kind that `deploy axon-cp` installs for a broker.
        rule(
            MULTICLUSTER,
            &["serviceexports", "serviceexports/status"],
            ALL_VERBS,
        ),
        rule(
            CORE,
            &["serviceaccounts", "secrets", "configmaps"],
            WITHOUT_PATCH,
        ),
    ]);
    rules
}

/// The rules of a joined cluster.
pub fn cluster() -> Vec<PolicyRule> {
    let mut rules = exchanged_objects();
    rules.extend([
        rule(SUBMARINER, &["brokers"], &["get", "list"]),
        rule(CORE, &["secrets"], READ),
        rule(CORE, &["serviceaccounts"], &["get", "list"]),
    ]);
    rules
}

/// The rules that `join` and `unjoin` need at a broker. Administrators of all versions of
/// Submariner have them.
pub(crate) fn joining() -> Vec<PolicyRule> {
    let mut rules = cluster();
    rules.extend([
        rule(
            CORE,
            &["serviceaccounts", "secrets", "configmaps"],
            WITHOUT_PATCH,
        ),
        rule(
            RBAC,
            &["rolebindings"],
            &["create", "get", "list", "delete"],
        ),
    ]);
    rules
}

/// The rules for the objects that clusters exchange through the broker.
fn exchanged_objects() -> Vec<PolicyRule> {
    vec![
        rule(SUBMARINER, &["clusters", "endpoints"], ALL_VERBS),
        rule(
            MULTICLUSTER,
            &["serviceimports", "serviceimports/status"],
            ALL_VERBS,
        ),
        rule(
            DISCOVERY,
            &["endpointslices", "endpointslices/restricted"],
            ALL_VERBS,
        ),
    ]
}

/// The cluster-wide rules of the operator: what it creates, and what it grants.
pub fn operator() -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(CORE, &["namespaces"], ALL_VERBS),
        // Not watched: the status of a quota changes with every object of its namespace.
        rule(
            CORE,
            &["resourcequotas"],
            &["create", "get", "list", "update", "delete"],
        ),
        rule(RBAC, &["roles", "rolebindings"], ALL_VERBS),
        rule(SUBMARINER, &["brokers"], ALL_VERBS),
    ];
    rules.extend(common_admin_rules());
    rules
}

/// The rules of the operator in its own namespace.
pub fn operator_in_own_namespace() -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(
            SUBMARINER,
            &["tenants"],
            &["get", "list", "watch", "update", "patch"],
        ),
        rule(
            SUBMARINER,
            &["tenants/status", "tenants/finalizers"],
            &["get", "update", "patch"],
        ),
        leader_election(),
    ];
    rules.extend(events());
    rules
}

/// The rules of the operator for creating spaces: on Insula only, and only on request.
pub fn operator_for_spaces() -> Vec<PolicyRule> {
    vec![
        rule(
            CORE,
            &["tenants"],
            &["get", "list", "watch", "create", "delete"],
        ),
        rule(
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &["get", "list", "create", "update"],
        ),
    ]
}

/// The rules of tenant administrators in the operator's namespace.
pub fn axon_admin() -> Vec<PolicyRule> {
    vec![rule(
        SUBMARINER,
        &["tenants"],
        &["create", "get", "list", "watch", "delete"],
    )]
}

/// The rules of tenant administrators in a tenant's namespace: to read the administrator's
/// token, to delete token and account for rotation, and to list the bindings that a rotation
/// leaves in place.
pub fn axon_admin_in_tenant(token_secret: &str) -> Vec<PolicyRule> {
    let only = |resource: &str, name: &str| {
        let mut rule = rule(CORE, &[resource], &["get", "delete"]);
        rule.resource_names = Some(vec![name.to_owned()]);
        rule
    };
    vec![
        only("secrets", token_secret),
        only("serviceaccounts", ADMIN),
        rule(RBAC, &["rolebindings"], &["list"]),
    ]
}

#[cfg(test)]
mod tests {
    use insula_operator::roles::{escalations, lacking, rights};

    use super::*;

    #[test]
    fn granted_rules_are_held_by_the_grantor() {
        for (holder, granted) in [
            (admin(), cluster()),
            (admin(), joining()),
            (tenant_admin("n"), joining()),
            (tenant_admin("n"), cluster()),
            (tenant_admin("n"), tenant_admin("n")),
            (operator(), admin()),
            (operator(), tenant_admin("n")),
            (operator(), cluster()),
            (operator(), axon_admin_in_tenant("t")),
        ] {
            assert_eq!(lacking(&holder, &granted), []);
        }
    }

    #[test]
    fn broker_administrators_manage_service_exports() {
        let all = [
            "create", "delete", "get", "list", "patch", "update", "watch",
        ];
        for rules in [admin(), tenant_admin("n")] {
            for resource in ["serviceexports", "serviceexports/status"] {
                let rights = rights(&rules).into_iter();
                let verbs: Vec<_> = rights
                    .filter(|right| right.group == MULTICLUSTER && right.resource == resource)
                    .map(|right| right.verb)
                    .collect();
                assert_eq!(verbs, all, "{resource}");
            }
        }
        let cluster = rights(&cluster()).into_iter();
        let exports = cluster.filter(|right| right.resource.starts_with("serviceexports"));
        assert_eq!(exports.count(), 0, "as in Submariner");
    }

    #[test]
    fn no_role_has_escalate_bind_or_wildcards() {
        let all = [
            admin(),
            tenant_admin("n"),
            cluster(),
            operator(),
            operator_in_own_namespace(),
            operator_for_spaces(),
            axon_admin(),
            axon_admin_in_tenant("t"),
        ];
        for rules in all {
            assert_eq!(escalations(&rules), []);
        }
    }

    #[test]
    fn r82_tenant_admin_rules_are_limited_to_its_namespace() {
        let beyond = [
            "tenants",
            "customresourcedefinitions",
            "clusterroles",
            "pods",
        ];
        for right in rights(&tenant_admin("n")) {
            assert!(!beyond.contains(&right.resource.as_str()), "{right:?}");
            if right.resource == "namespaces" {
                let (name, verb) = (right.name.as_deref(), right.verb.as_str());
                assert_eq!((name, verb), (Some("n"), "get"));
            }
        }
    }
}
