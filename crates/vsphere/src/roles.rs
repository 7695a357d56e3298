//! RBAC roles.
//!
//! There are three roles for users: the owner of the vCenters, the administrator of the
//! management cluster, and the users who run clusters on it. The last role is bound in a
//! namespace with a RoleBinding, and does not allow to read identities.

use insula_capi::names::GROUP as CAPI;
use insula_operator::roles::{
    ALL_VERBS, CORE, READ, claimed_secrets, events, leader_election, reconciled, rule,
};
use insula_operator::webhook::manifest::{injection_rules, secret_rules};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::names::GROUP;
use crate::webhooks;

/// Role of the owner of the vCenters.
pub(crate) const PROVIDER: &str = "capv-infrastructure-provider";
/// Role of the administrator of the management cluster.
pub(crate) const MANAGER: &str = "capv-management-cluster-operator";
/// Role of users who run clusters, bound in a namespace.
pub(crate) const WORKLOAD: &str = "capv-workload-cluster-operator";
/// Role of users who only read.
pub(crate) const VIEWER: &str = "capv-viewer";
/// Role of service accounts that the operator acts as, bound in their namespace.
pub(crate) const SERVICE_ACCOUNT: &str = "capv-service-account";
/// Role of users who read identities, to be bound with a ClusterRoleBinding. It is bound to no
/// user by default, because identities list their users in all namespaces.
pub(crate) const IDENTITY_VIEWER: &str = "capv-identity-viewer";

const IDENTITIES: &str = "vsphereclusteridentities";
const ZONES: &[&str] = &["vspheredeploymentzones", "vspherefailuredomains"];
/// The kinds that users write to create a cluster.
const CLUSTERS: &[&str] = &[
    "vsphereclusters",
    "vsphereclustertemplates",
    "vspheremachines",
    "vspheremachinetemplates",
];
const MACHINES: &[&str] = &["vspherevms"];
/// The namespaced kinds that the operator reconciles.
const NAMESPACED: &[&str] = &["vsphereclusters", "vspheremachines", "vspherevms"];
/// The kinds that the operator reconciles.
const RECONCILED: &[&str] = &[
    IDENTITIES,
    "vsphereclusters",
    "vspheremachines",
    "vspheredeploymentzones",
    "vspherevms",
];
/// Returns the rights of the owner of the vCenters: identities, zones and clusters.
pub fn provider() -> Vec<PolicyRule> {
    let mut rules = vec![rule(GROUP, ZONES, ALL_VERBS)];
    rules.extend(manager());
    rules
}

/// Returns the rights of the administrator of the management cluster: identities, clusters, and
/// the labels of namespaces, which decide who may use an identity.
pub fn manager() -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, &[IDENTITIES], ALL_VERBS),
        rule(
            CORE,
            &["namespaces"],
            &["get", "list", "watch", "update", "patch"],
        ),
    ];
    rules.extend(workload());
    rules
}

/// Returns the rights of users who read identities.
pub fn identity_viewer() -> Vec<PolicyRule> {
    vec![rule(GROUP, &[IDENTITIES], READ)]
}

/// Returns the rights that the operator needs to work in tenants' spaces: it reads the labels of
/// tenants, which decide who may use an identity of the system.
pub fn operator_for_tenants() -> Vec<PolicyRule> {
    vec![rule(CORE, &["tenants"], READ)]
}

/// Returns the rights of users who run clusters. They do not include cluster-scoped kinds, nor
/// writing VSphereVMs, which the operator creates from machines.
pub fn workload() -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, CLUSTERS, ALL_VERBS),
        rule(GROUP, MACHINES, READ),
        rule(CORE, &["secrets"], ALL_VERBS),
        // The labels of a namespace decide which identities may be used in it.
        rule(CORE, &["namespaces"], &["get"]),
    ];
    rules.extend(insula_capi::roles::cluster_kinds());
    rules
}

/// Returns the rights of users who only read: the custom resources, and no Secrets.
pub fn viewer() -> Vec<PolicyRule> {
    let all = [&[IDENTITIES], ZONES, CLUSTERS, MACHINES].concat();
    vec![rule(GROUP, &all, READ)]
}

/// Returns the operator's rights in all namespaces: exactly those that it uses.
pub fn operator() -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, MACHINES, &["create", "delete"]),
        rule(GROUP, &["vspherefailuredomains"], READ),
        rule(CAPI, &["clusters", "machines"], READ),
        claimed_secrets(),
        rule(CORE, &["namespaces"], READ),
    ];
    rules.extend(reconciled(GROUP, RECONCILED));
    rules.extend(events());
    rules
}

/// Returns the rights of a namespace's service account that the operator acts as: exactly those
/// that it uses in the namespace of an object.
pub fn service_account() -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, MACHINES, &["create", "delete"]),
        rule(CAPI, &["clusters", "machines"], READ),
        claimed_secrets(),
    ];
    rules.extend(reconciled(GROUP, NAMESPACED));
    rules
}

/// Returns the operator's rights in its own namespace: leader election.
pub(crate) fn operator_in_own_namespace() -> Vec<PolicyRule> {
    vec![leader_election()]
}

/// Returns the rights that the operator needs to serve webhooks outside of the server process: it
/// writes the CA bundle into its definitions.
pub fn webhooks() -> Vec<PolicyRule> {
    injection_rules(&webhooks::targets())
}

/// Returns the rights that its certificate needs, in its own namespace.
pub(crate) fn webhooks_in_own_namespace() -> Vec<PolicyRule> {
    secret_rules(webhooks::CERTIFICATE_SECRET)
}

#[cfg(test)]
mod tests {
    use insula_operator::roles::escalations;

    use super::*;

    /// Returns the rights as texts: verb and resource.
    fn rights(rules: &[PolicyRule]) -> Vec<String> {
        let rights = insula_operator::roles::rights(rules).into_iter();
        rights
            .map(|right| format!("{} {}.{}", right.verb, right.resource, right.group))
            .collect()
    }

    #[test]
    fn no_role_has_escalate_bind_or_wildcards() {
        for rules in [
            provider(),
            manager(),
            workload(),
            viewer(),
            identity_viewer(),
            operator(),
            operator_for_tenants(),
            service_account(),
            operator_in_own_namespace(),
            webhooks(),
            webhooks_in_own_namespace(),
        ] {
            assert_eq!(escalations(&rules), []);
        }
    }

    #[test]
    fn s2_viewer_reads_no_secret_and_workload_role_has_no_identities() {
        assert!(
            !rights(&viewer())
                .iter()
                .any(|right| right.contains("secrets"))
        );
        let about_identities = |right: &String| right.contains(IDENTITIES);
        assert!(!rights(&workload()).iter().any(about_identities));
        let looking: Vec<_> = rights(&viewer())
            .into_iter()
            .filter(about_identities)
            .collect();
        assert_eq!(looking.len(), READ.len(), "{looking:?}");
    }

    #[test]
    fn cr4_workload_role_makes_an_ordinary_cluster_and_manager_labels_namespaces() {
        let held = rights(&workload());
        for kind in [
            "clusters.cluster.x-k8s.io",
            "machinedeployments.cluster.x-k8s.io",
            "machinehealthchecks.cluster.x-k8s.io",
            "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
            "kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io",
            "vspheremachinetemplates.infrastructure.cluster.x-k8s.io",
        ] {
            assert!(held.contains(&format!("create {kind}")), "{kind}");
        }
        let labels = "patch namespaces.".to_owned();
        assert!(!held.contains(&labels));
        assert!(rights(&manager()).contains(&labels));
        assert!(rights(&provider()).contains(&labels));
    }

    #[test]
    fn cr4_operator_has_exactly_the_verbs_that_it_uses() {
        let on = |what: &str| -> Vec<String> {
            let all = rights(&operator()).into_iter();
            let verbs = all.filter_map(|right| {
                let (verb, of) = right.split_once(' ')?;
                (of == what).then(|| verb.to_owned())
            });
            verbs.collect()
        };
        assert_eq!(
            on("secrets."),
            ["delete", "get", "list", "patch", "update", "watch"]
        );
        assert_eq!(on("namespaces."), READ);
        assert_eq!(on("clusters.cluster.x-k8s.io"), READ);
        assert_eq!(
            on(&format!("{IDENTITIES}.{GROUP}")),
            ["get", "list", "patch", "update", "watch"]
        );
    }
}
