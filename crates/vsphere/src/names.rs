//! Group, labels, finalizers and other well-known names.

/// The group of the custom resources.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// Group and version, as in owner references.
pub(crate) const API_VERSION: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// The group of Cluster API's own kinds.
pub const CAPI: &str = "cluster.x-k8s.io";

/// The namespace of the operator and of the Secrets of identities.
pub const NAMESPACE: &str = "capv-system";
/// The service account of the operator.
pub const ACCOUNT: &str = "capv-manager";
/// The Lease for leader election.
pub const LEASE: &str = "capv-controller-manager-runtime";

/// Finalizer of Secrets that a cluster or an identity has claimed.
pub const SECRET_FINALIZER: &str = "vspherecluster/infrastructure.cluster.x-k8s.io";
/// Finalizer of identities.
pub const IDENTITY_FINALIZER: &str = "vsphereclusteridentity/infrastructure.cluster.x-k8s.io";
/// Finalizer of clusters.
pub const CLUSTER_FINALIZER: &str = "vspherecluster.infrastructure.cluster.x-k8s.io";
/// Finalizer of machines.
pub(crate) const MACHINE_FINALIZER: &str = "vspheremachine.infrastructure.cluster.x-k8s.io";
/// Finalizer of virtual machines.
pub(crate) const VM_FINALIZER: &str = "vspherevm.infrastructure.cluster.x-k8s.io";

/// The kinds that claim Secrets.
pub(crate) const CLAIMANTS: &[&str] = &["VSphereCluster", "VSphereClusterIdentity"];

/// Label with the name of the cluster that an object belongs to.
pub(crate) const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Label of control plane machines.
pub(crate) const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// Label that assigns an object to one of several operators.
pub const WATCH_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// Annotation of objects that must not be reconciled.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Annotation of objects with externally managed infrastructure.
pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";

/// The default port of a vCenter.
pub const PORT: u16 = 443;

/// The maximum length of an object's name.
const MAX_NAME_LENGTH: usize = 253;

/// Returns whether an object can have that name: DNS labels with dots between them. Any other
/// text could lead to another resource when it becomes part of a URL path.
pub(crate) fn is_valid_name(text: &str) -> bool {
    let inner = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= MAX_NAME_LENGTH && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_names_are_accepted() {
        let (long, longer) = ("a".repeat(253), "a".repeat(254));
        for name in ["a", "shared", "a.b", "1-2.c", "kube-root-ca.crt", &long] {
            assert!(is_valid_name(name), "{name:?}");
        }
        for text in [
            "",
            ".",
            "..",
            "a.",
            ".a",
            "a..b",
            "-a",
            "a-",
            "a.-b",
            "A",
            "a_b",
            "a b",
            "a/b",
            "shared/status",
            "%73hared",
            "shared?x",
            "shared#x",
            "shared\n",
            "\u{e4}",
            &longer,
        ] {
            assert!(!is_valid_name(text), "{text:?}");
        }
    }
}
