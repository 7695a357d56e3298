//! Groups, labels and annotations of Cluster API and of this crate.

pub use insula_capi::names::{
    CLUSTER_LABEL as CLUSTER_NAME, DELETE_FOR_MOVE as DELETED_FOR_MOVE, GROUP as CAPI, PAUSED,
};

/// The group of cluster add-ons.
pub const ADDONS: &str = "addons.cluster.x-k8s.io";
/// The group of `clusterctl`'s own inventory.
pub const INVENTORY: &str = "clusterctl.cluster.x-k8s.io";

/// Label of definitions that `clusterctl init` installed.
pub const INSTALLED: &str = "clusterctl.cluster.x-k8s.io";
/// Label of definitions of providers.
pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
/// Label of definitions and objects that are moved.
pub const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
/// Label of definitions and objects that are moved with all their dependents.
pub const MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
/// Annotation of objects that must not be moved yet.
pub const BLOCK: &str = "clusterctl.cluster.x-k8s.io/block-move";

/// Annotation of clusters that are being moved, at both servers: the UIDs of source and target.
pub const MARK: &str = "move.insula.dev/under-way";
/// Annotation of copies: the UID of the original at the source.
pub const ORIGIN: &str = "move.insula.dev/origin";

/// The label that the API server sets on every namespace.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
