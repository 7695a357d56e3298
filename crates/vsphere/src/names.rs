//! Names that others rely on.

/// The group of our kinds.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// The version that is stored.
pub const VERSION: &str = "v1beta2";
/// Both, as in owner references.
pub const API_VERSION: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// The group of Cluster API's own kinds.
pub const CAPI: &str = "cluster.x-k8s.io";

/// Where the operator is, and the Secrets of identities.
pub const NAMESPACE: &str = "capv-system";
/// The service account of the operator.
pub const ACCOUNT: &str = "capv-manager";
/// The Lease of whose turn it is.
pub const LEASE: &str = "capv-controller-manager-runtime";

/// On Secrets that a cluster or an identity holds.
pub const SECRET_FINALIZER: &str = "vspherecluster/infrastructure.cluster.x-k8s.io";
/// On identities.
pub const IDENTITY_FINALIZER: &str = "vsphereclusteridentity/infrastructure.cluster.x-k8s.io";
/// On clusters.
pub const CLUSTER_FINALIZER: &str = "vspherecluster.infrastructure.cluster.x-k8s.io";
/// On machines.
pub const MACHINE_FINALIZER: &str = "vspheremachine.infrastructure.cluster.x-k8s.io";
/// On virtual machines.
pub const VM_FINALIZER: &str = "vspherevm.infrastructure.cluster.x-k8s.io";

/// Which kinds hold Secrets.
pub const CLAIMANTS: &[&str] = &["VSphereCluster", "VSphereClusterIdentity"];

/// Which cluster something belongs to.
pub const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// On machines of control planes.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// Which of several operators works on something.
pub const WATCH_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// Nothing is done to what has this.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Somebody else makes the infrastructure of what has this.
pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";

/// Where a vCenter listens.
pub const PORT: u16 = 443;

/// The longest name that an object can have.
const LONGEST: usize = 253;

/// Whether an object can have that name: labels of small letters, digits and dashes, with dots
/// between them. Whatever else stands where a name should leads elsewhere in a path.
pub fn is_name(text: &str) -> bool {
    let inner = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= LONGEST && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_name_is_a_name() {
        let (long, longer) = ("a".repeat(253), "a".repeat(254));
        for name in ["a", "shared", "a.b", "1-2.c", "kube-root-ca.crt", &long] {
            assert!(is_name(name), "{name:?}");
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
            assert!(!is_name(text), "{text:?}");
        }
    }
}
