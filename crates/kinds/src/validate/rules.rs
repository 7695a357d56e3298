//! The validation rules of each kind, apart from metadata.

use super::check::Errors;
use super::tree::Node;
use super::{access, batch, core, network, pod, policy, rbac, review, storage, workload};
use crate::Kind;

type ValidateObject = fn(&Node<'_>, &mut Errors);
type ValidateUpdate = fn(&Node<'_>, &Node<'_>, &mut Errors);

/// The validation rules of one kind.
pub(super) struct Rules {
    /// Validates the object on create and, unless the order excludes it, on update.
    pub whole: Option<ValidateObject>,
    /// Validates the object on create instead of `whole`.
    pub create: Option<ValidateObject>,
    /// Validates an update.
    pub change: Option<ValidateUpdate>,
    /// The order of the checks of an update.
    pub order: Order,
    /// How many times metadata is validated on update: by the rules of all kinds, by
    /// those of this kind, and by those for new objects. Clients see it in the causes.
    pub metadata_passes: u8,
    /// Validates updates of subresources, by name.
    pub subresources: &'static [(&'static str, ValidateUpdate)],
    /// Whether the kind is never stored and its metadata not validated.
    pub transient: bool,
    /// Whether metadata is validated only by the generic rules, after those of the kind.
    pub plain: bool,
}

/// The order of the checks of an update.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The object, then the update.
    WholeFirst,
    /// The update, then the object.
    ChangeFirst,
    /// The update only.
    ChangeOnly,
}

const NONE: Rules = Rules {
    whole: None,
    create: None,
    change: None,
    order: Order::WholeFirst,
    metadata_passes: 2,
    subresources: &[],
    transient: false,
    plain: false,
};

const fn whole(whole: ValidateObject) -> Rules {
    Rules {
        whole: Some(whole),
        ..NONE
    }
}

const fn transient(whole: ValidateObject) -> Rules {
    Rules {
        whole: Some(whole),
        transient: true,
        ..NONE
    }
}

impl Rules {
    const fn with(self, change: ValidateUpdate) -> Self {
        Self {
            change: Some(change),
            ..self
        }
    }

    /// Validates the update before the object.
    const fn first(self, change: ValidateUpdate) -> Self {
        Self {
            change: Some(change),
            order: Order::ChangeFirst,
            ..self
        }
    }

    /// Validates the update only.
    const fn only(self, change: ValidateUpdate) -> Self {
        Self {
            change: Some(change),
            order: Order::ChangeOnly,
            ..self
        }
    }

    const fn metadata_passes(self, metadata_passes: u8) -> Self {
        Self {
            metadata_passes,
            ..self
        }
    }

    const fn sub(self, subresources: &'static [(&'static str, ValidateUpdate)]) -> Self {
        Self {
            subresources,
            ..self
        }
    }
}

/// Returns the rules of a kind.
pub(super) fn rules(kind: &Kind) -> Rules {
    match kind.group.as_str() {
        "" => core_rules(&kind.kind),
        "apps" => apps_rules(&kind.kind),
        "batch" => batch_rules(&kind.kind),
        "networking.k8s.io" | "discovery.k8s.io" => network_rules(&kind.kind),
        "storage.k8s.io" => storage_rules(&kind.kind),
        "rbac.authorization.k8s.io" => rbac_rules(&kind.kind),
        "access.insula.dev" => access_rules(&kind.kind),
        _ => other_rules(kind),
    }
}

fn access_rules(kind: &str) -> Rules {
    match kind {
        "CredentialRevocation" => {
            whole(access::credential_revocation).with(access::credential_revocation_update)
        }
        _ => NONE,
    }
}

fn core_rules(kind: &str) -> Rules {
    match kind {
        "Binding" => transient(core::binding),
        "ConfigMap" => whole(core::config_map)
            .first(core::config_map_update)
            .metadata_passes(3),
        "Endpoints" => whole(network::endpoints).metadata_passes(3),
        "Event" => Rules {
            plain: true,
            metadata_passes: 1,
            ..whole(core::event)
        },
        "LimitRange" => whole(core::limit_range),
        "Namespace" => Rules {
            subresources: &[
                ("status", core::phase),
                ("finalize", core::namespace_finalize),
            ],
            ..whole(core::namespace).metadata_passes(3)
        },
        "Node" => whole(core::node).with(core::node_update).metadata_passes(3),
        "PersistentVolume" => whole(storage::volume)
            .with(storage::volume_update)
            .metadata_passes(3),
        "PersistentVolumeClaim" => whole(storage::claim)
            .only(storage::claim_update)
            .metadata_passes(3)
            .sub(&[("status", storage::claim_status)]),
        "Pod" => whole(pod::create)
            .only(pod::update)
            .metadata_passes(3)
            .sub(&[
                ("status", pod::status),
                ("ephemeralcontainers", pod::ephemeral_containers),
                ("resize", pod::resize),
            ]),
        "PodTemplate" => whole(workload::pod_template),
        "ReplicationController" => {
            whole(workload::replication_controller).sub(&[("status", workload::replica_set_status)])
        }
        "ResourceQuota" => whole(core::resource_quota)
            .only(core::resource_quota_update)
            .sub(&[("status", core::quota_status)]),
        "Secret" => whole(core::secret)
            .first(core::secret_update)
            .metadata_passes(3),
        "ServiceAccount" => NONE.metadata_passes(3),
        "Service" => whole(network::service)
            .only(network::service_update)
            .sub(&[("status", network::service_status)]),
        "Tenant" => {
            whole(core::tenant).sub(&[("status", core::phase), ("finalize", core::tenant_finalize)])
        }
        _ => NONE,
    }
}

fn apps_rules(kind: &str) -> Rules {
    match kind {
        "ControllerRevision" => whole(workload::controller_revision)
            .only(workload::controller_revision_update)
            .metadata_passes(3),
        "DaemonSet" => whole(workload::daemon_set)
            .first(workload::selector_update)
            .sub(&[("status", workload::daemon_set_status)]),
        "Deployment" => whole(workload::deployment)
            .only(workload::deployment_update)
            .sub(&[("status", workload::deployment_status)]),
        "ReplicaSet" => whole(workload::replica_set)
            .only(workload::replica_set_update)
            .sub(&[("status", workload::replica_set_status)]),
        "StatefulSet" => whole(workload::stateful_set)
            .only(workload::stateful_set_update)
            .sub(&[("status", workload::stateful_set_status)]),
        _ => NONE,
    }
}

fn batch_rules(kind: &str) -> Rules {
    match kind {
        "CronJob" => whole(batch::cron_job).only(batch::cron_job_update),
        "Job" => whole(batch::job)
            .with(batch::job_update)
            .metadata_passes(3)
            .sub(&[("status", batch::job_status)]),
        _ => NONE,
    }
}

fn network_rules(kind: &str) -> Rules {
    match kind {
        "EndpointSlice" => whole(network::endpoint_slice).with(network::endpoint_slice_update),
        "Ingress" => Rules {
            create: Some(network::ingress_create),
            ..whole(network::ingress)
                .metadata_passes(3)
                .sub(&[("status", network::ingress_status)])
        },
        "IngressClass" => whole(network::ingress_class)
            .first(network::ingress_class_update)
            .metadata_passes(3),
        "IPAddress" => whole(network::ip_address)
            .with(network::ip_address_update)
            .metadata_passes(3),
        "NetworkPolicy" => whole(network::network_policy),
        "ServiceCIDR" => whole(network::service_cidr).only(network::service_cidr_update),
        _ => NONE,
    }
}

fn storage_rules(kind: &str) -> Rules {
    match kind {
        "CSIDriver" => whole(storage::csi_driver).only(storage::csi_driver_update),
        "CSINode" => whole(storage::csi_node),
        "CSIStorageCapacity" => whole(storage::csi_capacity)
            .with(storage::csi_capacity_update)
            .metadata_passes(3),
        "StorageClass" => whole(storage::class)
            .with(storage::class_update)
            .metadata_passes(3),
        "VolumeAttachment" => whole(storage::attachment).only(storage::attachment_update),
        "VolumeAttributesClass" => whole(storage::attributes)
            .with(storage::attributes_update)
            .metadata_passes(3),
        _ => NONE,
    }
}

fn rbac_rules(kind: &str) -> Rules {
    match kind {
        "Role" => whole(rbac::role).metadata_passes(3),
        "ClusterRole" => whole(rbac::cluster_role).metadata_passes(3),
        "RoleBinding" => whole(rbac::role_binding)
            .with(rbac::role_ref_update)
            .metadata_passes(3),
        "ClusterRoleBinding" => whole(rbac::cluster_role_binding)
            .with(rbac::role_ref_update)
            .metadata_passes(3),
        _ => NONE,
    }
}

fn other_rules(kind: &Kind) -> Rules {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("events.k8s.io", "Event") => whole(core::new_event).only(core::new_event_update),
        ("authentication.k8s.io", "TokenReview") => transient(review::token),
        ("authentication.k8s.io", _) => Rules {
            transient: true,
            ..NONE
        },
        ("authorization.k8s.io", "SubjectAccessReview") => transient(review::subject_access),
        ("authorization.k8s.io", "SelfSubjectAccessReview") => transient(review::self_access),
        ("authorization.k8s.io", "LocalSubjectAccessReview") => transient(review::local_access),
        ("authorization.k8s.io", _) => Rules {
            transient: true,
            ..NONE
        },
        ("autoscaling", "HorizontalPodAutoscaler") if kind.version == "v2" => {
            whole(policy::autoscaler).sub(&[("status", policy::autoscaler_status)])
        }
        ("policy", "PodDisruptionBudget") => Rules {
            plain: true,
            ..whole(policy::disruption_budget)
        }
        .metadata_passes(1)
        .sub(&[("status", policy::disruption_status)]),
        ("scheduling.k8s.io", "PriorityClass") => {
            whole(policy::priority_class).only(policy::priority_class_update)
        }
        ("coordination.k8s.io", "Lease") => whole(policy::lease),
        ("node.k8s.io", "RuntimeClass") => whole(policy::runtime_class)
            .with(policy::runtime_class_update)
            .metadata_passes(3),
        ("certificates.k8s.io", "CertificateSigningRequest") => whole(policy::signing_request)
            .metadata_passes(3)
            .only(policy::signing_request_update)
            .sub(&[
                ("status", policy::signing_request_status),
                ("approval", policy::signing_request_approval),
            ]),
        ("apiregistration.k8s.io", "APIService") => whole(policy::api_service),
        _ => NONE,
    }
}
