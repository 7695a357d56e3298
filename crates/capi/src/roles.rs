//! RBAC rules for kinds of Cluster API.

use insula_operator::roles::{ALL_VERBS, rule};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::names::GROUP;

/// The kinds that users write to create an ordinary cluster, by group.
const CLUSTER_KINDS: &[(&str, &[&str])] = &[
    (
        GROUP,
        &[
            "clusters",
            "machines",
            "machinesets",
            "machinedeployments",
            "machinehealthchecks",
            "machinepools",
        ],
    ),
    (
        "bootstrap.cluster.x-k8s.io",
        &["kubeadmconfigs", "kubeadmconfigtemplates"],
    ),
    (
        "controlplane.cluster.x-k8s.io",
        &["kubeadmcontrolplanes", "kubeadmcontrolplanetemplates"],
    ),
    ("addons.cluster.x-k8s.io", &["clusterresourcesets"]),
];

/// Returns the rights to create an ordinary cluster, apart from its infrastructure.
pub fn cluster_kinds() -> impl Iterator<Item = PolicyRule> {
    let kinds = CLUSTER_KINDS.iter();
    kinds.map(|(group, kinds)| rule(group, kinds, ALL_VERBS))
}
