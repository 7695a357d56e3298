//! RBAC roles.
//!
//! The operator of a tenant has no right outside of its own namespace and the namespaces that it
//! manages: [`manager`] is a ClusterRole that a RoleBinding in each of these namespaces refers to,
//! and [`own_namespace`] a Role next to the operator. Which kinds there are it learns from
//! discovery, which every account may read.

use insula_operator::roles::{CORE, READ, events, leader_election, reconciled, rule};
use insula_operator::webhook::injection::Target;
use insula_operator::webhook::manifest::{injection_rules, secret_rules};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::names::{
    CLAIM_LEASE, OWNERSHIP_KEY_SECRET, SETTINGS_SECRET, SETTINGS_SECRET_V2, WORKLOAD_ACCOUNT,
};
use crate::table;
use crate::webhooks::{self, Reviewed};

/// The ClusterRole of operators, which is bound in each namespace that they manage.
pub const MANAGER: &str = "azureoperator-manager-role";
/// The bindings of that role.
pub const MANAGER_BINDING: &str = "azureoperator-manager-rolebinding";
/// The ClusterRole of an operator for all namespaces, in addition.
pub const ALL_NAMESPACES: &str = "azureoperator-all-namespaces-role";
/// The binding of that role.
pub const ALL_NAMESPACES_BINDING: &str = "azureoperator-all-namespaces-rolebinding";
/// The ClusterRole of the webhooks.
pub const WEBHOOKS: &str = "azureoperator-webhook-role";
/// The binding of that role.
pub const WEBHOOKS_BINDING: &str = "azureoperator-webhook-rolebinding";
/// The Role of an operator in its own namespace, and its binding.
pub const OWN_NAMESPACE: &str = "azureoperator-own-namespace";

/// The verbs for objects that hold credentials and exports. None is deleted: exports are deleted
/// with their owner, by the garbage collector.
const WRITTEN: &[&str] = &["get", "list", "watch", "create", "update", "patch"];

/// Returns the rights of an operator in a namespace that it manages, exactly those that it uses:
/// for all kinds of the table, because any of them may be installed.
pub fn manager() -> Vec<PolicyRule> {
    let mut rules = kinds();
    rules.push(rule(CORE, &["secrets", "configmaps"], WRITTEN));
    // A RoleBinding allows to get the namespace that it is in, and no other one.
    rules.push(rule(CORE, &["namespaces"], &["get"]));
    rules.push(PolicyRule {
        resource_names: Some(vec![WORKLOAD_ACCOUNT.to_owned()]),
        ..rule(CORE, &["serviceaccounts/token"], &["create"])
    });
    rules.extend(claims());
    rules.extend(events());
    rules
}

/// Returns the rights to the Lease that names the operator of a namespace.
fn claims() -> [PolicyRule; 2] {
    let group = "coordination.k8s.io";
    [
        PolicyRule {
            resource_names: Some(vec![CLAIM_LEASE.to_owned()]),
            ..rule(group, &["leases"], &["get", "update"])
        },
        // A creation has no name that could be compared.
        rule(group, &["leases"], &["create"]),
    ]
}

fn kinds() -> Vec<PolicyRule> {
    // The table is in the order of groups.
    let groups = table::kinds().chunk_by(|one, other| one.group() == other.group());
    let groups = groups.flat_map(|kinds| {
        let plurals: Vec<_> = kinds.iter().map(table::Kind::plural).collect();
        let group = kinds.first().map_or("", |kind| kind.group());
        let mut rules = reconciled(group, &plurals).to_vec();
        // The operator deletes nothing, but writes owner references, and Kubernetes lets only
        // those write them who may delete the object.
        rules.push(rule(group, &plurals, &["delete"]));
        rules
    });
    groups.collect()
}

/// Returns the rights of an operator for all namespaces, besides those of [`manager`]: annotations
/// of Namespaces count for the objects in them.
pub fn all_namespaces() -> Vec<PolicyRule> {
    vec![rule(CORE, &["namespaces"], READ)]
}

/// Returns the rights of an operator in its own namespace: leader election, its settings, which it
/// watches by name, and the key for records of owners, which it creates.
pub fn own_namespace() -> Vec<PolicyRule> {
    let settings = [SETTINGS_SECRET, SETTINGS_SECRET_V2];
    vec![
        leader_election(),
        PolicyRule {
            resource_names: Some(settings.map(str::to_owned).to_vec()),
            ..rule(CORE, &["secrets"], READ)
        },
        PolicyRule {
            resource_names: Some(vec![OWNERSHIP_KEY_SECRET.to_owned()]),
            ..rule(CORE, &["secrets"], &["get"])
        },
        // A creation has no name that could be compared.
        rule(CORE, &["secrets"], &["create"]),
    ]
}

/// Returns the rights of webhooks in the server process: the schemas for conversion.
pub fn definitions() -> Vec<PolicyRule> {
    let group = "apiextensions.k8s.io";
    vec![rule(group, &["customresourcedefinitions"], READ)]
}

/// Returns the rights of webhooks in a process of their own: besides, the CA bundle of their
/// certificate in the objects that call them.
pub fn webhooks() -> Vec<PolicyRule> {
    let mut rules = definitions();
    rules.extend(injection_rules(&injected()));
    rules
}

/// Returns the rights that the webhooks' certificate needs in their namespace.
pub fn webhooks_in_own_namespace() -> Vec<PolicyRule> {
    secret_rules(webhooks::CERTIFICATE_SECRET)
}

/// Returns the objects that may need the CA bundle: the configurations and definitions of all kinds
/// of the table, because any of them may name the Service.
pub fn injected() -> Vec<Target> {
    let kinds: Vec<_> = table::kinds().iter().map(Reviewed::all).collect();
    let definitions = table::kinds().iter();
    let definitions = definitions.map(|kind| format!("{}.{}", kind.plural(), kind.group()));
    let mut targets = webhooks::targets(&kinds);
    targets.extend(definitions.map(Target::Definition));
    targets
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use insula_operator::roles::{Right, escalations, rights};

    use super::*;

    fn texts(rules: &[PolicyRule], is: impl Fn(&Right) -> bool) -> Vec<String> {
        let rights = rights(rules).into_iter().filter(is);
        let texts = rights.map(|right| {
            let name = right.name.map(|name| format!("/{name}"));
            format!(
                "{} {}{}",
                right.verb,
                right.resource,
                name.unwrap_or_default()
            )
        });
        texts.collect()
    }

    #[test]
    fn no_role_has_escalate_bind_or_wildcards() {
        for rules in [
            manager(),
            all_namespaces(),
            own_namespace(),
            webhooks(),
            webhooks_in_own_namespace(),
        ] {
            assert_eq!(escalations(&rules), []);
        }
    }

    #[test]
    fn r13_operator_has_core_rights_that_it_uses_and_no_other() {
        assert_eq!(
            texts(&manager(), |right| right.group == CORE),
            [
                "create configmaps",
                "create events",
                "create secrets",
                "create serviceaccounts/token/aso-workload",
                "get configmaps",
                "get namespaces",
                "get secrets",
                "list configmaps",
                "list secrets",
                "patch configmaps",
                "patch events",
                "patch secrets",
                "update configmaps",
                "update secrets",
                "watch configmaps",
                "watch secrets",
            ]
        );
    }

    #[test]
    fn r13_every_kind_of_the_table_is_reconciled_and_none_created() {
        let rules = manager();
        let of_azure = |right: &Right| right.group.ends_with(".azure.com");
        let rights = rights(&rules);
        let verbs = rights.iter().filter(|right| of_azure(right));
        let verbs: BTreeSet<_> = verbs.map(|right| &*right.verb).collect();
        let expected = ["delete", "get", "list", "patch", "update", "watch"];
        assert_eq!(verbs, BTreeSet::from(expected));
        for kind in table::kinds() {
            let right = Right {
                verb: "list".to_owned(),
                group: kind.group().to_owned(),
                resource: kind.plural().to_owned(),
                name: None,
            };
            assert!(rights.contains(&right), "{right:?}");
        }
    }

    #[test]
    fn r07_operator_may_write_the_lease_of_its_claim_and_no_other() {
        let group = "coordination.k8s.io";
        assert_eq!(
            texts(&manager(), |right| right.group == group),
            [
                "create leases",
                "get leases/azure-operator-claim",
                "update leases/azure-operator-claim",
            ]
        );
    }

    #[test]
    fn rights_to_secrets_of_the_own_namespace_are_for_named_ones() {
        assert_eq!(
            texts(&own_namespace(), |right| right.resource == "secrets"),
            [
                "create secrets",
                "get secrets/aso-controller-settings",
                "get secrets/azureoperator-ownership-key",
                "get secrets/azureoperatorsettings",
                "list secrets/aso-controller-settings",
                "list secrets/azureoperatorsettings",
                "watch secrets/aso-controller-settings",
                "watch secrets/azureoperatorsettings",
            ]
        );
    }

    #[test]
    fn webhooks_may_not_read_any_custom_resource_or_secret() {
        let rules = webhooks();
        let resources: BTreeSet<_> = rights(&rules).into_iter().map(|it| it.resource).collect();
        let expected = [
            "customresourcedefinitions",
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ];
        assert_eq!(resources, expected.map(str::to_owned).into());
    }
}
