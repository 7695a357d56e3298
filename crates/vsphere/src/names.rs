//! Group, labels, finalizers and other well-known names.

use insula_capi::names::CLUSTER_LABEL;
pub use insula_capi::names::{MANAGED_BY, PAUSED, WATCH_LABEL};
use insula_operator::provider::{Claimant, Names};
use kube::api::ApiResource;

use crate::kinds::VSphereCluster;

/// The group of the custom resources.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// Group and version, as in owner references.
pub(crate) const API_VERSION: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// The namespace of the operator and of the Secrets of identities.
pub const NAMESPACE: &str = "capv-system";
/// The service account of the operator.
pub const ACCOUNT: &str = "capv-manager";
/// The Lease for leader election.
pub const LEASE: &str = "capv-controller-manager-runtime";

/// Finalizer of Secrets that a cluster or an identity holds.
pub const SECRET_FINALIZER: &str = "vspherecluster/infrastructure.cluster.x-k8s.io";
/// Finalizer of identities.
pub const IDENTITY_FINALIZER: &str = "vsphereclusteridentity/infrastructure.cluster.x-k8s.io";
/// Finalizer of clusters.
pub const CLUSTER_FINALIZER: &str = "vspherecluster.infrastructure.cluster.x-k8s.io";
/// Finalizer of machines.
pub(crate) const MACHINE_FINALIZER: &str = "vspheremachine.infrastructure.cluster.x-k8s.io";
/// Finalizer of virtual machines.
pub(crate) const VM_FINALIZER: &str = "vspherevm.infrastructure.cluster.x-k8s.io";

/// The default port of a vCenter.
pub const PORT: u16 = 443;

/// The names that the shell of the operator uses.
pub(crate) const NAMES: Names = Names {
    controller: "infrastructure.cluster.x-k8s.io/capv-manager",
    lease: LEASE,
    watch_label: WATCH_LABEL,
    pause_annotation: PAUSED,
    member_label: CLUSTER_LABEL,
    api_version: API_VERSION,
    claimant_kinds: &["VSphereCluster", "VSphereClusterIdentity"],
    claimants: &[Claimant {
        kind: "VSphereCluster",
        resource: || ApiResource::erase::<VSphereCluster>(&()),
    }],
    secret_finalizer: SECRET_FINALIZER,
};
