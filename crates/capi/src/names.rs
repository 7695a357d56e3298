//! Labels, annotations and other well-known names of Cluster API.

/// The group of Cluster API's own kinds.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The group of control planes.
pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
/// The group of infrastructure kinds.
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// Label with the name of the cluster that an object belongs to.
pub const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Label of control plane machines.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// Label that assigns an object to one of several operators.
pub const WATCH_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// Annotation of objects that must not be reconciled.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Annotation of objects with externally managed infrastructure.
pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
/// Annotation of objects that are deleted because they were moved.
pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Annotation of dry-run requests of the topology controller.
pub const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";
/// Annotation of objects with the name of the template that they were created from.
pub const CLONED_FROM: &str = "cluster.x-k8s.io/cloned-from-name";
