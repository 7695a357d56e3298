//! RBAC roles.
//!
//! Users who run clusters have a role that is bound in a namespace with a RoleBinding. It does not
//! include hosts: which hosts a namespace may use is decided where the hosts are, by the rights of
//! the user in its kubeconfig.

use insula_capi::names::GROUP as CAPI;
use insula_operator::roles::{ALL_VERBS, CORE, READ, events, leader_election, reconciled, rule};
use insula_operator::webhook::manifest::{injection_rules, secret_rules};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::names::{CAPI_IPAM_GROUP, GROUP, HOST_GROUP, IPAM_GROUP};
use crate::webhooks;

/// Role of users who run clusters, bound in a namespace.
pub(crate) const WORKLOAD: &str = "capm3-workload-cluster-operator";
/// Role of users who only read.
pub(crate) const VIEWER: &str = "capm3-viewer";
/// Role of service accounts that the operator acts as, bound in their namespace.
pub(crate) const SERVICE_ACCOUNT: &str = "capm3-service-account";
/// Role and account for the user of a kubeconfig, in the namespace of the hosts.
pub(crate) const HOST_ACCESS: &str = "capm3-host-access";

/// The infrastructure kinds that users write.
const CLUSTERS: &[&str] = &[
    "metal3clusters",
    "metal3clustertemplates",
    "metal3machines",
    "metal3machinetemplates",
    "metal3datatemplates",
    "metal3remediationtemplates",
];
/// The infrastructure kinds that controllers write.
const DERIVED: &[&str] = &["metal3dataclaims", "metal3datas", "metal3remediations"];
/// The infrastructure kinds that the operator reconciles.
const RECONCILED: &[&str] = &[
    "metal3clusters",
    "metal3machines",
    "metal3datatemplates",
    "metal3dataclaims",
    "metal3datas",
    "metal3remediations",
];

/// Returns the rights of users who run clusters.
pub fn workload() -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, CLUSTERS, ALL_VERBS),
        rule(GROUP, DERIVED, READ),
        rule(IPAM_GROUP, &["ippools"], ALL_VERBS),
        rule(IPAM_GROUP, &["ipclaims", "ipaddresses"], READ),
        rule(CORE, &["secrets"], ALL_VERBS),
    ];
    rules.extend(insula_capi::roles::cluster_kinds());
    rules
}

/// Returns the rights of users who only read: the custom resources, and no Secrets.
pub fn viewer() -> Vec<PolicyRule> {
    vec![
        rule(GROUP, &[CLUSTERS, DERIVED].concat(), READ),
        rule(IPAM_GROUP, &["ippools", "ipclaims", "ipaddresses"], READ),
    ]
}

/// Returns the operator's rights in all namespaces: exactly those that it uses.
pub fn operator() -> Vec<PolicyRule> {
    let mut rules = service_account();
    rules.push(rule(CORE, &["namespaces"], READ));
    rules.extend(events());
    rules
}

/// Returns the rights of a namespace's service account that the operator acts as: exactly those
/// that it uses in the namespace of an object.
pub fn service_account() -> Vec<PolicyRule> {
    let made = ["create", "delete"];
    let mut rules = vec![
        rule(GROUP, &["metal3dataclaims", "metal3datas"], &made),
        rule(GROUP, &["metal3machinetemplates"], READ),
        rule(IPAM_GROUP, &["ipclaims", "ipaddresses"], &made),
        rule(
            IPAM_GROUP,
            &["ipaddresses"],
            &["get", "list", "watch", "patch"],
        ),
        rule(
            CAPI_IPAM_GROUP,
            &["ipaddressclaims"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(CAPI_IPAM_GROUP, &["ipaddressclaims/status"], &["patch"]),
        rule(
            CAPI_IPAM_GROUP,
            &["ipaddresses"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(
            CAPI,
            &["clusters", "machines", "machinesets", "machinedeployments"],
            READ,
        ),
        // Remediation reports to the Machine, whose owner replaces it.
        rule(CAPI, &["machines/status"], &["patch"]),
        // Hosts next to machines without an identity.
        rule(
            HOST_GROUP,
            &["baremetalhosts"],
            &["get", "list", "watch", "patch"],
        ),
        rule(
            CORE,
            &["secrets"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
    ];
    rules.extend(reconciled(GROUP, RECONCILED));
    rules.extend(reconciled(IPAM_GROUP, &["ippools", "ipclaims"]));
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
    use insula_operator::roles::{escalations, rights};

    use super::*;
    use crate::pool::rights::host_access;

    #[test]
    fn no_role_has_escalate_bind_or_wildcards() {
        for rules in [
            workload(),
            viewer(),
            operator(),
            service_account(),
            operator_in_own_namespace(),
            webhooks(),
            webhooks_in_own_namespace(),
            host_access(),
        ] {
            assert_eq!(escalations(&rules), []);
        }
    }

    #[test]
    fn users_of_clusters_have_no_rights_to_hosts() {
        for rules in [workload(), viewer()] {
            let groups = rights(&rules).into_iter().map(|right| right.group);
            assert!(groups.into_iter().all(|group| group != HOST_GROUP));
        }
    }

    #[test]
    fn r15_user_of_a_kubeconfig_needs_no_more_than_hosts_and_secrets() {
        let rights: Vec<_> = rights(&host_access())
            .into_iter()
            .map(|right| format!("{} {}.{}", right.verb, right.resource, right.group))
            .collect();
        assert_eq!(
            rights,
            [
                "create secrets.",
                "delete secrets.",
                "get secrets.",
                "get baremetalhosts.metal3.io",
                "list baremetalhosts.metal3.io",
                "patch secrets.",
                "patch baremetalhosts.metal3.io",
                "watch baremetalhosts.metal3.io",
            ]
        );
    }
}
