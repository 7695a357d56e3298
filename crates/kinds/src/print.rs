//! Objects as table rows, as kubectl prints them.
//!
//! The table of kinds has the columns of every kind; the cells are computed here. All
//! columns are filled, including those of wide tables: the client chooses.
//!
//! Objects are expected as stored, with defaults, but printing never fails: a missing or
//! malformed field counts as empty.

mod access;
mod admission;
mod autoscale;
mod cluster;
mod network;
mod parts;
mod pod;
mod row;
mod selector;
mod storage;
mod workload;

use serde_json::json;

use crate::{Kind, Object, Value};
use row::Row;

pub use parts::{Part, decode_parts, row_part};

/// Returns the cells of the object's row in the order of the kind's columns; none for
/// kinds without a table.
///
/// `now_seconds` is the Unix time from which ages are computed.
pub fn cells(kind: &Kind, object: &Object, now_seconds: i64) -> Vec<Value> {
    let row = &Row::new(object, now_seconds);
    match kind.kind.as_str() {
        // The columns of custom resources are defined by their CRD.
        _ if kind.columns.is_empty() || kind.is_custom() => Vec::new(),
        "APIService" => cluster::api_service(row),
        "CSIDriver" => storage::csi_driver(row),
        "CSINode" => storage::csi_node(row),
        "CertificateSigningRequest" => access::certificate_signing_request(row),
        "ClusterRoleBinding" | "RoleBinding" => access::role_binding(row),
        "ComponentStatus" => cluster::component_status(row),
        "ConfigMap" => cluster::config_map(row),
        "ControllerRevision" => workload::controller_revision(row),
        "CredentialRevocation" => access::credential_revocation(row),
        "CronJob" => workload::cron_job(row),
        "DaemonSet" => workload::daemon_set(row),
        "Deployment" => workload::deployment(row),
        "EndpointSlice" => network::endpoint_slice(row),
        "Endpoints" => network::endpoints(row),
        "Event" => cluster::event(row),
        "FlowSchema" => access::flow_schema(row),
        "HorizontalPodAutoscaler" => autoscale::horizontal_pod_autoscaler(row),
        "IPAddress" => network::ip_address(row),
        "Ingress" => network::ingress(row),
        "IngressClass" => network::ingress_class(row),
        "Job" => workload::job(row),
        "Lease" => vec![row.name(), row.text("spec.holderIdentity"), row.age()],
        "MutatingAdmissionPolicy" => admission::policy(row, "spec.mutations"),
        "ValidatingAdmissionPolicy" => admission::policy(row, "spec.validations"),
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => {
            admission::binding(row)
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![row.name(), row.count("webhooks"), row.age()]
        }
        "Namespace" | "Tenant" => vec![row.name(), row.text("status.phase"), row.age()],
        "NetworkPolicy" => network::network_policy(row),
        "Node" => cluster::node(row),
        "PersistentVolume" => storage::persistent_volume(row),
        "PersistentVolumeClaim" => storage::persistent_volume_claim(row),
        "Pod" => pod::pod(row),
        "PodDisruptionBudget" => workload::pod_disruption_budget(row),
        "PodTemplate" => workload::pod_template(row),
        "PriorityClass" => cluster::priority_class(row),
        "PriorityLevelConfiguration" => access::priority_level_configuration(row),
        "ReplicaSet" => workload::replica_set(row),
        "ReplicationController" => workload::replication_controller(row),
        "ResourceClaim" => cluster::resource_claim(row),
        "ResourceQuota" => cluster::resource_quota(row),
        "ResourceSlice" => cluster::resource_slice(row),
        "RuntimeClass" => vec![row.name(), row.text("handler"), row.age()],
        "Secret" => vec![row.name(), row.text("type"), row.count("data"), row.age()],
        "Service" => network::service(row),
        "ServiceCIDR" => network::service_cidr(row),
        "StatefulSet" => workload::stateful_set(row),
        "StorageClass" => storage::storage_class(row),
        "TenantAccess" => access::tenant_access(row),
        "VolumeAttachment" => storage::volume_attachment(row),
        "VolumeAttributesClass" => vec![row.name(), row.text("driverName"), row.age()],
        _ => default_cells(kind, row),
    }
}

/// Returns the row's conditions: whether a pod has completed.
pub fn row_conditions(kind: &Kind, object: &Object) -> Option<Value> {
    if kind.kind != "Pod" || kind.is_custom() {
        return None;
    }
    let phase = object.get("status")?.get("phase")?.as_str()?;
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([
        {"type": "Completed", "status": "True", "reason": phase, "message": message},
    ]))
}

/// Returns the column definitions of the kind's table.
pub fn column_definitions(kind: &Kind) -> Value {
    let definition = |column: &crate::Column| {
        json!({
            "name": column.name,
            "type": column.kind,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    };
    kind.columns.iter().map(definition).collect()
}

/// Whether a kind has only the default columns.
pub fn has_default_columns(kind: &Kind) -> bool {
    kind.columns.len() == 2 && kind.columns.iter().any(|column| column.kind == "date")
}

/// Returns the cells of a `Scale`, which is not in the table of kinds.
pub fn scale_cells(scale: &Object, now_seconds: i64) -> Vec<Value> {
    let row = &Row::new(scale, now_seconds);
    let (desired, available) = (row.number("spec.replicas"), row.number("status.replicas"));
    vec![row.name(), desired, available, row.age()]
}

/// Returns the column definitions of a `Scale`.
pub fn scale_columns() -> Value {
    let column = |(name, kind, description)| {
        json!({
            "name": name, "type": kind, "format": "", "description": description, "priority": 0,
        })
    };
    let columns = [
        ("Name", "string", "What the scaled object is called."),
        ("Desired", "integer", "How many there are to be."),
        ("Available", "integer", "How many there are."),
        (
            "Age",
            "string",
            "How long the scaled object has been there.",
        ),
    ];
    columns.into_iter().map(column).collect()
}

/// Default cells: the name and the creation time.
fn default_cells(kind: &Kind, row: &Row<'_>) -> Vec<Value> {
    let dated = kind.columns.iter().any(|column| column.kind == "date");
    let created = if dated { row.created_at() } else { row.age() };
    vec![row.name(), created]
}
