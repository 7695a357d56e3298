//! Names that others rely on.

/// The group of Cluster API's own kinds. Providers' groups end in it.
pub const CAPI: &str = "cluster.x-k8s.io";
/// The group of what is added to clusters.
pub const ADDONS: &str = "addons.cluster.x-k8s.io";
/// The group of what `clusterctl` notes for itself.
pub const INVENTORY: &str = "clusterctl.cluster.x-k8s.io";

/// On definitions that `clusterctl init` installed.
pub const INSTALLED: &str = "clusterctl.cluster.x-k8s.io";
/// On definitions of providers.
pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
/// On definitions and objects that are moved.
pub const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
/// On definitions and objects that are moved with all that they own.
pub const MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
/// On what must not be moved yet.
pub const BLOCK: &str = "clusterctl.cluster.x-k8s.io/block-move";
/// On what is deleted because it is somewhere else now.
pub const DELETED_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// On what belongs to a cluster: its name.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Nothing is done to what has this.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";

/// On clusters that are being moved, at both ends: from where to where.
pub const MARK: &str = "move.insula.dev/under-way";
/// On what was moved: the UID that it had where it was.
pub const ORIGIN: &str = "move.insula.dev/origin";

/// What the API server says of every namespace.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
