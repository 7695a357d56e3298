//! Groups, labels, annotations, finalizers and other well-known names.

pub use insula_capi::names::{MANAGED_BY, PAUSED, WATCH_LABEL};

/// The group of the infrastructure kinds.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// Group and version of the infrastructure kinds, as they are stored.
pub const API_VERSION: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// The group of address pools.
pub const IPAM_GROUP: &str = "ipam.metal3.io";
/// The group of Cluster API's own address claims.
pub const CAPI_IPAM_GROUP: &str = "ipam.cluster.x-k8s.io";
/// The group of hosts.
pub const HOST_GROUP: &str = "metal3.io";

/// The `User-Agent` of the operator.
pub const AGENT: &str = concat!("insula-metal3/", env!("CARGO_PKG_VERSION"));
/// The namespace of the operator.
pub const NAMESPACE: &str = "capm3-system";
/// The service account of the operator.
pub const ACCOUNT: &str = "capm3-manager";
/// The Lease for leader election.
pub const LEASE: &str = "controller-leader-election-capm3";

/// Finalizer of clusters.
pub const CLUSTER_FINALIZER: &str = "metal3cluster.infrastructure.cluster.x-k8s.io";
/// Finalizer of machines, and of the data claims that they create.
pub const MACHINE_FINALIZER: &str = "metal3machine.infrastructure.cluster.x-k8s.io";
/// Finalizer of data templates.
pub const DATA_TEMPLATE_FINALIZER: &str = "metal3datatemplate.infrastructure.cluster.x-k8s.io";
/// Finalizer of data claims, and of the data that is created for them.
pub const DATA_CLAIM_FINALIZER: &str = "metal3dataclaim.infrastructure.cluster.x-k8s.io";
/// Finalizer of data, and of the address claims that it makes.
pub const DATA_FINALIZER: &str = "metal3data.infrastructure.cluster.x-k8s.io";
/// Finalizer of remediations.
pub const REMEDIATION_FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";
/// Finalizer of address pools.
pub const POOL_FINALIZER: &str = "ippool.ipam.metal3.io";
/// Finalizer of address claims.
pub const CLAIM_FINALIZER: &str = "ipclaim.ipam.metal3.io";
/// Finalizer of addresses.
pub const ADDRESS_FINALIZER: &str = "ipaddress.ipam.metal3.io";
/// Finalizer of Cluster API's address claims on pools of Metal3.
pub const CAPI_CLAIM_FINALIZER: &str = "ipam.metal3.io/ipaddressclaim";
/// Finalizer of the addresses of these claims.
pub const CAPI_ADDRESS_FINALIZER: &str = "ipam.metal3.io/ipaddress";

/// Annotation of machines: namespace and name of the host.
pub const HOST_ANNOTATION: &str = "metal3.io/BareMetalHost";
/// Annotation of hosts that the Bare Metal Operator must not touch.
pub const HOST_PAUSED: &str = "baremetalhost.metal3.io/paused";
/// Annotation of hosts that the Bare Metal Operator does not manage.
pub const HOST_DETACHED: &str = "baremetalhost.metal3.io/detached";
/// The value of [`HOST_PAUSED`] for a pause that this operator set.
pub const HOST_PAUSED_BY: &str = "metal3.io/capm3";
/// Annotation of hosts with a copy of their status, for a move.
pub const HOST_STATUS: &str = "baremetalhost.metal3.io/status";
/// Annotation of hosts that no machine may get.
pub const HOST_UNHEALTHY: &str = "capm3.metal3.io/unhealthy";
/// The former name of [`HOST_UNHEALTHY`], which still counts.
pub const HOST_UNHEALTHY_FORMER: &str = "capi.metal3.io/unhealthy";
/// Annotation of objects that a move must wait for.
pub const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
/// Annotation of clusters: prefixes of host labels that become labels of nodes.
pub const LABEL_SYNC_PREFIXES: &str = "metal3.io/metal3-label-sync-prefixes";
/// Annotation of nodes: the labels that are copied from their hosts.
pub const SYNCED_LABELS: &str = "infrastructure.cluster.x-k8s.io/synced-labels";
/// Annotation of claims with the address that they request.
pub const REQUESTED_ADDRESS: &str = "ipAddress";
/// Annotation of hosts to restart, which the Bare Metal Operator removes.
pub const REBOOT: &str = "reboot.metal3.io";
/// Prefix of the annotation of hosts that a remediation switches off; its UID follows.
pub const REBOOT_PREFIX: &str = "reboot.metal3.io/metal3-remediation-";
/// Annotation of hosts that a remediation restarts with [`REBOOT`]: its UID and the number of the
/// attempt.
pub const RESTART_RECORD: &str = "infrastructure.cluster.x-k8s.io/restart";
/// Annotation of hosts: the tenant of the machine that uses it, if it is in a tenant's space of an
/// Insula. The reference to the machine has no field for it.
pub const TENANT_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/tenant";
/// Annotation of machines whose host is reached through a kubeconfig, and of their data: the UID
/// that the machine had when it claimed the host. A move to another management cluster changes the
/// UID and keeps annotations, so this is what proves then that the host belongs to the machine.
pub const CLAIM_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/claim";
/// Annotation of hosts that are reached through a kubeconfig, and of Secrets next to them: the
/// SHA-256 of the value that [`CLAIM_ANNOTATION`] of the machine has.
pub const CLAIM_DIGEST: &str = "infrastructure.cluster.x-k8s.io/claim-digest";
/// Annotation of hosts with the cleaning mode that they had before their machine set another one;
/// empty if they had none.
pub const FORMER_CLEANING_MODE: &str = "infrastructure.cluster.x-k8s.io/former-cleaning-mode";
/// Annotation of Secrets next to hosts: kind, namespace and name of the object they belong to.
pub const OWNER_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/owner";

/// Annotation of data with Secrets next to a host that a kubeconfig reaches: the reference to it,
/// because machine and cluster may no longer exist when the Secrets are deleted.
pub const IDENTITY_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/identity";

/// Label of hosts that are reserved for the machines of one control plane or MachineDeployment.
pub const NODE_REUSE: &str = "infrastructure.cluster.x-k8s.io/node-reuse";
/// Label of hosts with their failure domain.
pub const FAILURE_DOMAIN: &str = "infrastructure.cluster.x-k8s.io/failure-domain";
/// Label of nodes with the UID of their host.
pub const NODE_UUID: &str = "metal3.io/uuid";
/// The type of metadata and network data Secrets.
pub const SECRET_TYPE: &str = "infrastructure.cluster.x-k8s.io/secret";
