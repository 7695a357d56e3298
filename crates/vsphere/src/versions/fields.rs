//! The fields that differ between the versions. What cannot be converted is left out.

use serde_json::{Map, Value, json};

use super::{Version, duration};

type Fields = Map<String, Value>;

/// The kinds, each with a converted specification or status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Identity,
    Cluster,
    ClusterTemplate,
    Machine,
    MachineTemplate,
    VirtualMachine,
    Zone,
    FailureDomain,
}

impl Kind {
    /// Returns the kind of this name. The error is a message.
    pub(super) fn of(name: &str) -> Result<Self, String> {
        match name {
            "VSphereClusterIdentity" => Ok(Self::Identity),
            "VSphereCluster" => Ok(Self::Cluster),
            "VSphereClusterTemplate" => Ok(Self::ClusterTemplate),
            "VSphereMachine" => Ok(Self::Machine),
            "VSphereMachineTemplate" => Ok(Self::MachineTemplate),
            "VSphereVM" => Ok(Self::VirtualMachine),
            "VSphereDeploymentZone" => Ok(Self::Zone),
            "VSphereFailureDomain" => Ok(Self::FailureDomain),
            _ => Err(format!("the kind {name:?} has one version")),
        }
    }
}

/// Converts specification and status to this version.
pub(super) fn convert(kind: Kind, to: Version, content: &mut Value) {
    match to {
        Version::V1Beta2 => upgrade(kind, content),
        Version::V1Beta1 => downgrade(kind, content),
    }
    if let Some(status) = at(content, "/status") {
        match to {
            Version::V1Beta2 => upgrade_status(kind, status),
            Version::V1Beta1 => downgrade_status(kind, status),
        }
    }
}

fn upgrade(kind: Kind, content: &mut Value) {
    match kind {
        Kind::Identity => on(content, "/spec", |spec| {
            let secret = spec.remove("secretRef");
            let name = secret.and_then(|secret| secret.get("name").cloned());
            // A client that still writes the older field means this one.
            spec.extend(name.map(|name| ("secretName".to_owned(), name)));
        }),
        Kind::Cluster => on(content, "/spec", upgrade_cluster),
        Kind::ClusterTemplate => {
            on(content, "/spec/template/spec", upgrade_cluster);
            on(content, "/spec/template", |it| {
                drop_empty(it, &["metadata"])
            });
        }
        Kind::Machine => on(content, "/spec", upgrade_machine),
        Kind::MachineTemplate => {
            on(content, "/spec/template/spec", upgrade_machine);
            on(content, "/spec/template", |it| {
                drop_empty(it, &["metadata"])
            });
        }
        Kind::VirtualMachine => on(content, "/spec", |spec| {
            drop_empty(spec, &["datacenter"]);
            upgrade_clone(spec);
            if let Some(Value::Object(reference)) = spec.get_mut("bootstrapRef") {
                reference.retain(|field, _| field == "name");
            }
        }),
        Kind::Zone => on(content, "/spec/placementConstraint", |constraint| {
            drop_empty(constraint, &["resourcePool", "folder"]);
        }),
        Kind::FailureDomain => on(content, "/spec/topology", |topology| {
            drop_empty(topology, &["computeCluster", "datastore"]);
        }),
    }
}

fn downgrade(kind: Kind, content: &mut Value) {
    match kind {
        Kind::Identity | Kind::Cluster | Kind::Zone | Kind::FailureDomain => {}
        Kind::ClusterTemplate => on(content, "/spec/template", |template| {
            template.remove("metadata");
        }),
        Kind::Machine | Kind::VirtualMachine => on(content, "/spec", downgrade_machine),
        Kind::MachineTemplate => on(content, "/spec/template/spec", downgrade_machine),
    }
}

fn upgrade_cluster(spec: &mut Fields) {
    if let Some(Value::Object(endpoint)) = spec.get_mut("controlPlaneEndpoint") {
        drop_empty(endpoint, &["host", "port"]);
    }
    drop_empty(spec, &["controlPlaneEndpoint"]);
}

fn upgrade_machine(spec: &mut Fields) {
    if spec.get("datacenter").is_some_and(is_empty) {
        // The default of v1beta2, which the server would add when it reads the object.
        spec.insert("datacenter".to_owned(), "*".into());
    }
    upgrade_clone(spec);
    if let Some(Value::Object(mut naming)) = spec.remove("namingStrategy") {
        drop_empty(&mut naming, &["template"]);
        spec.insert("naming".to_owned(), naming.into());
        drop_empty(spec, &["naming"]);
    }
}

/// Converts the fields that machines and virtual machines share.
fn upgrade_clone(spec: &mut Fields) {
    let texts = [
        "cloneMode",
        "snapshot",
        "server",
        "folder",
        "datastore",
        "storagePolicyName",
        "resourcePool",
        "os",
        "hardwareVersion",
    ];
    drop_empty(spec, &texts);
    let timeout = spec.remove("guestSoftPowerOffTimeout");
    let seconds = timeout.and_then(|timeout| duration::seconds(timeout.as_str()?));
    spec.extend(seconds.map(|seconds| (TIMEOUT_SECONDS.to_owned(), seconds.into())));
    if let Some(Value::Object(network)) = spec.get_mut("network") {
        drop_empty(network, &["preferredAPIServerCidr"]);
        let devices = network.get_mut("devices").and_then(Value::as_array_mut);
        let devices = devices.into_iter().flatten();
        for device in devices.filter_map(Value::as_object_mut) {
            drop_empty(device, &["deviceName", "gateway4", "gateway6", "macAddr"]);
        }
    }
}

const TIMEOUT_SECONDS: &str = "guestSoftPowerOffTimeoutSeconds";

fn downgrade_machine(spec: &mut Fields) {
    let seconds = spec.remove(TIMEOUT_SECONDS);
    let seconds = seconds.and_then(|seconds| seconds.as_i64());
    if let Some(seconds) = seconds.filter(|&seconds| seconds > 0) {
        let text = duration::text(seconds);
        spec.insert("guestSoftPowerOffTimeout".to_owned(), text.into());
    }
    if let Some(naming) = spec.remove("naming") {
        spec.insert("namingStrategy".to_owned(), naming);
    }
}

/// The fields of a status in v1beta1 that v1beta2 has in `deprecated.v1beta1`.
const DEPRECATED: [&str; 3] = ["conditions", "failureReason", "failureMessage"];

fn upgrade_status(kind: Kind, status: &mut Fields) {
    let deprecated: Fields = DEPRECATED
        .into_iter()
        .filter_map(|field| status.remove_entry(field))
        .collect();
    if !deprecated.is_empty() {
        let deprecated = json!({"v1beta1": deprecated});
        status.insert("deprecated".to_owned(), deprecated);
    }
    if let Some(Value::Object(mut newer)) = status.remove("v1beta2") {
        status.extend(newer.remove_entry("conditions"));
    }
    if let (Kind::Cluster | Kind::Machine, Some(&Value::Bool(ready))) = (kind, status.get("ready"))
    {
        let initialization = json!({"provisioned": ready});
        status.insert("initialization".to_owned(), initialization);
    }
    if let (Kind::Cluster, Some(Value::Object(domains))) = (kind, status.get_mut("failureDomains"))
    {
        // The order of names, as the operator writes them.
        let mut list: Vec<_> = std::mem::take(domains).into_iter().collect();
        list.sort_by(|(one, _), (other, _)| one.cmp(other));
        let domains = list.into_iter().filter_map(|(name, domain)| match domain {
            Value::Object(mut domain) => {
                domain.insert("name".to_owned(), name.into());
                Some(Value::Object(domain))
            }
            _ => None,
        });
        let domains = domains.collect();
        status.insert("failureDomains".to_owned(), domains);
    }
}

fn downgrade_status(kind: Kind, status: &mut Fields) {
    let deprecated = status.remove("deprecated");
    if let Some(conditions) = status.remove("conditions") {
        let newer = json!({"conditions": conditions});
        status.insert("v1beta2".to_owned(), newer);
    }
    if let Some(Value::Object(mut deprecated)) = deprecated
        && let Some(Value::Object(mut fields)) = deprecated.remove("v1beta1")
    {
        status.extend(
            DEPRECATED
                .into_iter()
                .filter_map(|field| fields.remove_entry(field)),
        );
    }
    if let Kind::Cluster | Kind::Machine = kind
        && let Some(initialization) = status.remove("initialization")
        && let Some(&Value::Bool(provisioned)) = initialization.get("provisioned")
    {
        status.insert("ready".to_owned(), provisioned.into());
    }
    if let (Kind::Cluster, Some(Value::Array(domains))) = (kind, status.get_mut("failureDomains")) {
        let domains = std::mem::take(domains).into_iter();
        let domains =
            domains.filter_map(|mut domain| match domain.as_object_mut()?.remove("name")? {
                Value::String(name) => Some((name, domain)),
                _ => None,
            });
        let domains = domains.collect();
        status.insert("failureDomains".to_owned(), domains);
    }
}

/// Removes fields that have no content: empty texts and objects, and the number 0.
fn drop_empty(fields: &mut Fields, names: &[&str]) {
    for name in names {
        if fields.get(*name).is_some_and(is_empty) {
            fields.remove(*name);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    }
}

fn at<'a>(content: &'a mut Value, pointer: &str) -> Option<&'a mut Fields> {
    content.pointer_mut(pointer)?.as_object_mut()
}

fn on(content: &mut Value, pointer: &str, change: impl FnOnce(&mut Fields)) {
    if let Some(fields) = at(content, pointer) {
        change(fields);
    }
}
