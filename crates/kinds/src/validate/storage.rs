//! Volumes, claims, storage classes and CSI objects.

use std::collections::HashSet;

use serde_json::Value;

use super::amount::{self, Amount};
use super::check::{self, Errors};
use super::meta;
use super::pod;
use super::tree::{Node, Path, differences, same};
use crate::FieldError;
use crate::text;

/// 256 KiB of keys and values together.
const MAX_PARAMETERS_SIZE: usize = 262_144;

/// Volume sources in the order in which Kubernetes checks them, and their required
/// fields.
const SOURCES: &[(&str, &[&str])] = &[
    ("hostPath", &["path"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("nfs", &["server", "path"]),
    ("rbd", &["monitors", "image"]),
    ("quobyte", &["registry", "volume"]),
    ("cephfs", &["monitors"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("cinder", &["volumeID"]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("local", &["path"]),
    ("storageos", &[]),
    ("csi", &[]),
];

/// Validates a PersistentVolume.
pub(super) fn volume(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let modes = spec.get("accessModes");
    check::required(&modes, errors);
    pod::access_modes(&modes, errors);
    capacity(&spec.get("capacity"), errors);
    let reclaim = spec.get("persistentVolumeReclaimPolicy");
    if !reclaim.is_empty() {
        check::one_of_if_set(&reclaim, &["Delete", "Recycle", "Retain"], errors);
    }
    let affinity = spec.get("nodeAffinity");
    if affinity.get("required").is_set() {
        pod::node_selector(&affinity.get("required"), errors);
    } else if affinity.is_set() {
        let detail = "must specify required node constraints";
        errors.push(affinity.get("required").required(detail));
    }
    source(&spec, errors);
    if spec.get("hostPath").get("path").text() == "/" && reclaim.text() == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(reclaim.forbidden(detail));
    }
    check::format_if_set(&spec.get("storageClassName"), text::dns_subdomain, errors);
    check::one_of_if_set(&spec.get("volumeMode"), &["Block", "Filesystem"], errors);
    attributes_class(&spec, errors);
}

fn capacity(capacity: &Node<'_>, errors: &mut Errors) {
    check::required(capacity, errors);
    if !capacity.get("storage").is_set() || capacity.entries().count() > 1 {
        let place = capacity.path.to_string();
        errors.push(FieldError::not_supported(
            place,
            capacity.value(),
            &["storage"],
        ));
    }
    for (_, amount) in capacity.entries() {
        if Amount::of(&amount).sign().is_lt() {
            errors.push(amount.invalid("must be a valid resource quantity"));
        }
        if Amount::of(&amount).sign().is_le() {
            errors.push(amount.invalid("must be greater than zero"));
        }
    }
}

fn source(spec: &Node<'_>, errors: &mut Errors) {
    let mut given = false;
    for (kind, needed) in SOURCES {
        let source = spec.get(kind);
        if !source.is_set() {
            continue;
        }
        if given {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        given = true;
        for field in *needed {
            check::required(&source.get(field), errors);
        }
        match *kind {
            "hostPath" => pod::host_path(&source, errors),
            "nfs" => pod::nfs(&source, errors),
            "local" => {
                check::no_backsteps(&source.get("path"), errors);
                let affinity = spec.get("nodeAffinity");
                if !affinity.is_set() {
                    errors.push(affinity.required("Local volume requires node affinity"));
                }
            }
            "csi" => {
                pod::driver(&source.get("driver"), errors);
                check::required(&source.get("volumeHandle"), errors);
            }
            _ => {}
        }
    }
    if !given {
        errors.push(spec.required("must specify a volume type"));
    }
}

fn attributes_class(spec: &Node<'_>, errors: &mut Errors) {
    let class = spec.get("volumeAttributesClassName");
    if !class.is_set() {
        return;
    }
    if class.is_empty() {
        errors.push(class.required("an empty string is disallowed"));
    } else {
        check::format(&class, text::dns_subdomain, errors);
    }
    if !spec.get("csi").is_set() {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.push(spec.get("csi").required(detail));
    }
}

/// Validates an update of a PersistentVolume.
pub(super) fn volume_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (before, after) = (old.get("spec"), new.get("spec"));
    if SOURCES
        .iter()
        .any(|(kind, _)| !is_same_source(kind, &before, &after))
    {
        let place = after.path.field("persistentvolumesource").to_string();
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden(place, detail));
    }
    let mode = after
        .get("volumeMode")
        .at(Path::default().field("volumeMode"));
    check::immutable(&before.get("volumeMode"), &mode, errors);
    let (had, has) = (before.get("nodeAffinity"), after.get("nodeAffinity"));
    if had.is_set() && !has.same(&had) {
        let place = has.at(Path::default().field("nodeAffinity"));
        errors.push(place.invalid(check::IMMUTABLE));
    }
}

/// Whether the source has not changed; a secret for expansion may be added later.
fn is_same_source(kind: &str, before: &Node<'_>, after: &Node<'_>) -> bool {
    let without = |spec: &Node<'_>| {
        let mut source = spec.object().and_then(|spec| spec.get(kind)).cloned();
        if let Some(Value::Object(members)) = &mut source {
            members.remove("controllerExpandSecretRef");
        }
        source.unwrap_or_default()
    };
    let had = before.get("csi").get("controllerExpandSecretRef").is_set();
    if kind == "csi" && !had {
        return same(&without(before), &without(after));
    }
    let value = |spec: &Node<'_>| spec.object().and_then(|spec| spec.get(kind)).cloned();
    same(
        &value(before).unwrap_or_default(),
        &value(after).unwrap_or_default(),
    )
}

/// Validates a PersistentVolumeClaim.
pub(super) fn claim(object: &Node<'_>, errors: &mut Errors) {
    pod::claim_spec(&object.get("spec"), errors);
}

/// Validates an update of a PersistentVolumeClaim.
pub(super) fn claim_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    claim(new, errors);
    let key = "volume.beta.kubernetes.io/storage-class";
    let class = |of: &Node<'_>| {
        let annotations = of.get("metadata").get("annotations");
        annotations
            .object()
            .and_then(|notes| notes.get(key))
            .cloned()
    };
    if class(old) != class(new) {
        let place = new
            .get("metadata")
            .get("annotations")
            .path
            .field(key)
            .to_string();
        let value = class(new).unwrap_or_else(|| "".into());
        errors.push(FieldError::invalid(place, &value, check::IMMUTABLE));
    }
    let (before, after) = (old.get("spec"), new.get("spec"));
    let bound = new.get("status").get("phase").text() == "Bound";
    let allowed = with_old_mutable_fields(&before, &after, bound);
    let changed = match (before.object(), allowed.as_object()) {
        (Some(before), Some(allowed)) => differences(before, allowed),
        _ => Vec::new(),
    };
    if !changed.is_empty() {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(after.immutable(detail, &changed));
    }
    claim_size(old, new, errors);
    let mode = after
        .get("volumeMode")
        .at(Path::default().field("volumeMode"));
    check::immutable(&before.get("volumeMode"), &mode, errors);
    let class = after.get("volumeAttributesClassName");
    let current = old.get("status").get("currentVolumeAttributesClassName");
    if current.is_set() && !class.same(&before.get("volumeAttributesClassName")) {
        if !class.is_set() {
            let detail = "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil";
            errors.push(class.forbidden(detail));
        } else if class.is_empty() {
            let detail = "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil";
            errors.push(class.forbidden(detail));
        }
    }
}

/// Returns the new spec with the old values of all mutable fields.
fn with_old_mutable_fields(before: &Node<'_>, after: &Node<'_>, bound: bool) -> Value {
    let mut mixed = after.value().clone();
    let Some(members) = mixed.as_object_mut() else {
        return mixed;
    };
    // `volumeName` is set once, on binding; a default class may be set later.
    for field in ["volumeName", "storageClassName"] {
        let unset = if field == "volumeName" {
            before.get("volumeName").is_empty()
        } else {
            !before.get("storageClassName").is_set()
        };
        if unset {
            members.remove(field);
            if before.get("volumeName").is_set() && field == "volumeName" {
                members.insert(field.to_owned(), before.get("volumeName").value().clone());
            }
        }
    }
    if !bound {
        return mixed;
    }
    let class = before.get("volumeAttributesClassName");
    members.remove("volumeAttributesClassName");
    if class.is_set() {
        members.insert(
            "volumeAttributesClassName".to_owned(),
            class.value().clone(),
        );
    }
    let size = before.get("resources").get("requests").get("storage");
    if let Some(Value::Object(requests)) = mixed.pointer_mut("/resources/requests") {
        requests.insert("storage".to_owned(), size.value().clone());
    }
    mixed
}

fn claim_size(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let size = |of: &Node<'_>| {
        let requests = of.get("spec").get("resources").get("requests");
        Amount::of(&requests.get("storage"))
    };
    let capacity = Amount::of(&old.get("status").get("capacity").get("storage"));
    if size(new) < size(old) && size(new) <= capacity {
        let place = new
            .get("spec")
            .get("resources")
            .get("requests")
            .get("storage");
        errors.push(place.forbidden("field can not be less than status.capacity"));
    }
}

/// Validates the status of a PersistentVolumeClaim.
pub(super) fn claim_status(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    if new.get("spec").get("accessModes").is_empty() {
        let place = Path::default().field("Spec").field("accessModes");
        errors.push(new.get("spec").at(place).required(""));
    }
    for (_, amount) in new.get("status").get("capacity").entries() {
        if Amount::of(&amount).sign().is_lt() {
            errors.push(amount.invalid("must be a valid resource quantity"));
        }
    }
}

/// Validates a StorageClass.
pub(super) fn class(object: &Node<'_>, errors: &mut Errors) {
    provisioner(&object.get("provisioner"), errors);
    parameters(&object.get("parameters"), errors);
    let reclaim = object.get("reclaimPolicy");
    if !reclaim.is_empty() {
        check::one_of_if_set(&reclaim, &["Delete", "Retain"], errors);
    }
    let binding = object.get("volumeBindingMode");
    if binding.is_set() {
        let modes = ["Immediate", "WaitForFirstConsumer"];
        check::one_of_if_set(&binding, &modes, errors);
    } else {
        errors.push(binding.required(""));
    }
    pod::topology_terms(&object.get("allowedTopologies"), errors);
}

fn provisioner(name: &Node<'_>, errors: &mut Errors) {
    if !check::required(name, errors) {
        return;
    }
    let lower = name.text().to_lowercase();
    for message in text::qualified_name(&lower) {
        errors.push(name.invalid_as(&lower.as_str().into(), &message));
    }
}

fn parameters(parameters: &Node<'_>, errors: &mut Errors) {
    if parameters.entries().count() > 512 {
        errors.push(parameters.too_long(512));
        return;
    }
    let mut size = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            errors.push(parameters.invalid_as(&"".into(), "field can not be empty."));
        }
        size += key.len() + value.text().len();
    }
    if size > MAX_PARAMETERS_SIZE {
        errors.push(parameters.too_long(MAX_PARAMETERS_SIZE));
    }
}

/// Validates an update of a StorageClass.
pub(super) fn class_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    for field in [
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ] {
        check::immutable(&old.get(field), &new.get(field), errors);
    }
}

/// Validates a VolumeAttributesClass.
pub(super) fn attributes(object: &Node<'_>, errors: &mut Errors) {
    provisioner(&object.get("driverName"), errors);
    parameters(&object.get("parameters"), errors);
    if object.get("parameters").is_empty() {
        let detail = "must contain at least one key/value pair";
        errors.push(object.get("parameters").required(detail));
    }
}

/// Validates an update of a VolumeAttributesClass.
pub(super) fn attributes_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    for field in ["driverName", "parameters"] {
        if !new.get(field).same(&old.get(field)) {
            let detail = format!("updates to {field} are forbidden.");
            errors.push(new.get(field).forbidden(&detail));
        }
    }
}

/// Validates a VolumeAttachment.
pub(super) fn attachment(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    pod::driver(&spec.get("attacher"), errors);
    let source = spec.get("source");
    let (inline, name) = (
        source.get("inlineVolumeSpec"),
        source.get("persistentVolumeName"),
    );
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.is_set(), name.is_set()) {
        (false, false) => errors.push(source.required(detail)),
        (true, true) => errors.push(source.forbidden(detail)),
        (false, true) if name.is_empty() => {
            errors.push(name.required("must specify non empty persistentVolumeName"));
        }
        _ => {}
    }
    check::format(&spec.get("nodeName"), text::dns_subdomain, errors);
    if name.is_set() {
        check::format(&name, text::dns_subdomain, errors);
    }
}

/// Validates an update of a VolumeAttachment.
pub(super) fn attachment_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    attachment(new, errors);
    let spec = new.get("spec");
    if spec.same(&old.get("spec")) {
        return;
    }
    let (text, source) = (
        |field| Value::from(spec.get(field).text()),
        spec.get("source"),
    );
    let printed = format!(
        r#"{{"Attacher":{},"Source":{{"PersistentVolumeName":{},"InlineVolumeSpec":{}}},"NodeName":{}}}"#,
        text("attacher"),
        source.get("persistentVolumeName").value(),
        source.get("inlineVolumeSpec").value(),
        text("nodeName")
    );
    let place = spec.path.to_string();
    errors.push(FieldError::invalid_printed(
        place,
        &printed,
        check::IMMUTABLE,
    ));
}

/// Validates a CSIDriver.
pub(super) fn csi_driver(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    for (field, printed) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.get(field).is_set() {
            errors.push(spec.get(printed).required(""));
        }
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    check::one_of_if_set(&spec.get("fsGroupPolicy"), &policies, errors);
    let mut audiences = HashSet::new();
    for request in spec.get("tokenRequests").items() {
        let (audience, seconds) = (request.get("audience"), request.get("expirationSeconds"));
        if !audiences.insert(audience.text()) {
            errors.push(audience.duplicate());
            continue;
        }
        if seconds.int().is_some_and(|seconds| seconds < 600) {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(seconds.invalid(detail));
        }
        if seconds.int().is_some_and(|seconds| seconds > 1 << 32) {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.push(seconds.invalid(detail));
        }
    }
    let modes = spec.get("volumeLifecycleModes");
    for mode in modes.items() {
        let mode = mode.at(modes.path.clone());
        check::one_of_if_set(&mode, &["Persistent", "Ephemeral"], errors);
    }
    let period = spec.get("nodeAllocatableUpdatePeriodSeconds");
    if period.int().is_some_and(|seconds| seconds < 10) {
        errors.push(period.invalid("must be greater than or equal to 10 seconds"));
    }
}

/// Validates an update of a CSIDriver.
pub(super) fn csi_driver_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    csi_driver(new, errors);
    let (old, new) = (old.get("spec"), new.get("spec"));
    let attach = new
        .get("attachRequired")
        .at(new.path.field("attachedRequired"));
    check::immutable(&old.get("attachRequired"), &attach, errors);
    let field = "volumeLifecycleModes";
    check::immutable(&old.get(field), &new.get(field), errors);
}

/// Validates a CSINode.
pub(super) fn csi_node(object: &Node<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for item in object.get("spec").get("drivers").items() {
        let name = item.get("name");
        pod::driver(&name, errors);
        check::required(&item.get("nodeID"), errors);
        if item.get("nodeID").text().len() > 256 {
            errors.push(item.get("nodeID").invalid("must be 256 characters or less"));
        }
        check::nonnegative(&item.get("allocatable").get("count"), errors);
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        let mut keys = HashSet::new();
        for key in item.get("topologyKeys").items() {
            let key = key.at(item.path.clone());
            check::required(&key, errors);
            if !keys.insert(key.text()) {
                errors.push(key.duplicate());
            }
            check::format(&key, text::qualified_name, errors);
        }
    }
}

/// Validates a CSIStorageCapacity.
pub(super) fn csi_capacity(object: &Node<'_>, errors: &mut Errors) {
    meta::selector(&object.get("nodeTopology"), errors);
    check::format(&object.get("storageClassName"), text::dns_subdomain, errors);
    if object.get("capacity").is_set() {
        amount::resource_value(&object.get("capacity"), "storage", errors);
    }
}

/// Validates an update of a CSIStorageCapacity.
pub(super) fn csi_capacity_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let field = "nodeTopology";
    check::immutable_selector(&old.get(field), &new.get(field), errors);
    let field = "storageClassName";
    check::immutable(&old.get(field), &new.get(field), errors);
}
