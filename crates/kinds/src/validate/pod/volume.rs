//! The volumes of a pod.

use std::collections::{HashMap, HashSet};

use super::container::{field_reference, resource_reference};
use crate::text;
use crate::validate::amount::{Amount, resource_value};
use crate::validate::check::{self, Errors};
use crate::validate::meta;
use crate::validate::tree::Node;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const SEVERAL_SOURCES: &str = "may not specify more than 1 volume type";

/// Volume sources in the order in which Kubernetes checks them, and their required
/// fields.
const SOURCES: &[(&str, &[&str])] = &[
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &["registry", "volume"]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &["volumeName"]),
    ("projected", &[]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &[]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &[]),
];

const VOLUME_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Validates the volumes and returns the valid ones by name.
pub(super) fn volumes<'a>(
    volumes: &Node<'a>,
    pod: &str,
    is_pod: bool,
    errors: &mut Errors,
) -> HashMap<&'a str, Node<'a>> {
    let created: HashSet<_> = volumes
        .items()
        .filter(|volume| !pod.is_empty() && volume.get("ephemeral").is_set())
        .map(|volume| format!("{pod}-{}", volume.get("name").text()))
        .collect();
    let mut faultless = HashMap::new();
    for volume in volumes.items() {
        let before = errors.len();
        source(&volume, pod, is_pod, errors);
        let name = volume.get("name");
        check::required_format(&name, text::dns_label, errors);
        if faultless.contains_key(name.text()) {
            errors.push(name.duplicate());
        }
        if errors.len() == before {
            faultless.insert(name.text(), volume.clone());
        }
        let claim = volume.get("persistentVolumeClaim").get("claimName");
        if created.contains(claim.text()) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(claim.invalid(detail));
        }
    }
    faultless
}

fn source(volume: &Node<'_>, pod: &str, is_pod: bool, errors: &mut Errors) {
    let mut given = false;
    for (kind, needed) in SOURCES {
        let source = volume.get(kind);
        if !source.is_set() {
            continue;
        }
        if given {
            errors.push(source.forbidden(SEVERAL_SOURCES));
            continue;
        }
        given = true;
        for field in *needed {
            check::required(&source.get(field), errors);
        }
        details(volume, kind, &source, pod, is_pod, errors);
    }
    if !given {
        errors.push(volume.required("must specify a volume type"));
    }
}

fn details(
    volume: &Node<'_>,
    kind: &str,
    source: &Node<'_>,
    pod: &str,
    is_pod: bool,
    errors: &mut Errors,
) {
    match kind {
        "emptyDir" => {
            let limit = source.get("sizeLimit");
            if Amount::of(&limit).sign().is_lt() {
                errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
            }
        }
        "hostPath" => host_path(source, errors),
        "gitRepo" => check::relative_path(&source.get("directory"), errors),
        "nfs" => nfs(source, errors),
        "secret" | "configMap" => {
            mode(&source.get("defaultMode"), errors);
            for item in source.get("items").items() {
                key_to_path(&item, errors);
            }
        }
        "downwardAPI" => {
            mode(&source.get("defaultMode"), errors);
            for file in source.get("items").items() {
                downward_file(&file.at(source.path.clone()), errors);
            }
        }
        "projected" => projected(source, errors),
        "csi" => driver(&source.get("driver"), errors),
        "ephemeral" => ephemeral(volume, source, pod, errors),
        "image" => {
            if is_pod {
                check::required(&source.get("reference"), errors);
            }
            let policies = ["Always", "IfNotPresent", "Never"];
            check::one_of(&source.get("pullPolicy"), &policies, errors);
        }
        _ => {}
    }
}

/// Validates the name of a CSI driver.
pub(in crate::validate) fn driver(name: &Node<'_>, errors: &mut Errors) {
    if !check::required(name, errors) {
        return;
    }
    if name.text().len() > 63 {
        errors.push(name.too_long(63));
    }
    for message in text::dns_subdomain(&name.text().to_lowercase()) {
        errors.push(name.invalid(&message));
    }
}

/// Validates a host path; a missing path has no further errors.
pub(in crate::validate) fn host_path(source: &Node<'_>, errors: &mut Errors) {
    if source.get("path").is_empty() {
        return;
    }
    check::no_backsteps(&source.get("path"), errors);
    let known = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    check::one_of_if_set(&source.get("type"), &known, errors);
}

/// Validates an NFS volume source.
pub(in crate::validate) fn nfs(source: &Node<'_>, errors: &mut Errors) {
    if !source.get("path").text().starts_with('/') {
        errors.push(source.get("path").invalid_text("must be an absolute path"));
    }
}

fn mode(node: &Node<'_>, errors: &mut Errors) {
    if node.int().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.push(node.invalid(MODE));
    }
}

fn key_to_path(item: &Node<'_>, errors: &mut Errors) {
    check::required(&item.get("key"), errors);
    check::required(&item.get("path"), errors);
    check::non_reserved_path(&item.get("path"), errors);
    mode(&item.get("mode"), errors);
}

fn downward_file(file: &Node<'_>, errors: &mut Errors) {
    check::required(&file.get("path"), errors);
    check::non_reserved_path(&file.get("path"), errors);
    let (field, resource) = (file.get("fieldRef"), file.get("resourceFieldRef"));
    if field.is_set() {
        field_reference(&field, VOLUME_FIELDS, errors);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(file.invalid_as(&"resource".into(), detail));
        }
    } else if resource.is_set() {
        resource_reference(&resource, true, errors);
    } else {
        errors.push(file.required("one of fieldRef and resourceFieldRef is required"));
    }
    mode(&file.get("mode"), errors);
}

fn projected(source: &Node<'_>, errors: &mut Errors) {
    mode(&source.get("defaultMode"), errors);
    let mut paths = HashSet::new();
    let mut taken = |path: &Node<'_>, shown: &str, errors: &mut Errors| {
        if !path.is_empty() && !paths.insert(path.text().to_owned()) {
            errors.push(source.invalid_as(&shown.into(), "conflicting duplicate paths"));
        }
    };
    for item in source.get("sources").items() {
        let mut given = 0;
        for kind in ["secret", "configMap"] {
            let part = item.get(kind);
            given += usize::from(part.is_set());
            if !part.is_set() {
                continue;
            }
            check::required(&part.get("name"), errors);
            for file in part.get("items").items() {
                key_to_path(&file, errors);
                taken(&file.get("path"), part.get("name").text(), errors);
            }
        }
        let downward = item.get("downwardAPI");
        given += usize::from(downward.is_set());
        for file in downward.get("items").items() {
            downward_file(&file.at(downward.path.clone()), errors);
            taken(&file.get("path"), file.get("path").text(), errors);
        }
        let token = item.get("serviceAccountToken");
        given += usize::from(token.is_set());
        service_account_token(source, &token, errors);
        for kind in ["clusterTrustBundle", "podCertificate"] {
            given += usize::from(item.get(kind).is_set());
        }
        let bundle = item.get("clusterTrustBundle");
        if bundle.is_set() {
            trust_bundle(&bundle, errors);
            taken(&bundle.get("path"), bundle.get("path").text(), errors);
        }
        if given > 1 {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(item.forbidden(detail));
        }
    }
}

fn service_account_token<'a>(source: &Node<'a>, token: &Node<'a>, errors: &mut Errors) {
    if !token.is_set() {
        return;
    }
    let seconds = token.get("expirationSeconds");
    if seconds.int().unwrap_or_default() < 600 {
        let detail = "may not specify a duration less than 10 minutes";
        errors.push(seconds.invalid_int(detail));
    }
    if seconds.int().unwrap_or_default() > 1 << 32 {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.push(seconds.invalid_int(detail));
    }
    // Kubernetes states the path of the volume source.
    let path = token.get("path").at(source.path.field("path"));
    if check::required(&path, errors) {
        check::non_reserved_path(&path, errors);
    }
}

fn trust_bundle(bundle: &Node<'_>, errors: &mut Errors) {
    let (name, signer) = (bundle.get("name"), bundle.get("signerName"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => {
            errors.push(bundle.invalid("only one of name and signerName may be used"));
        }
        (true, false) => {
            if name.is_empty() {
                errors.push(name.required("must be a valid object name"));
            }
            let selector = bundle.get("labelSelector");
            if selector.is_set() {
                let detail = "labelSelector must be unset if name is specified";
                errors.push(check::invalid_selector(&selector, detail));
            }
        }
        (false, true) => {
            if signer.is_empty() {
                errors.push(signer.required("must be a valid signer name"));
            }
            meta::selector(&bundle.get("labelSelector"), errors);
        }
        (false, false) => {
            errors.push(bundle.required("either name or signerName must be specified"));
        }
    }
    check::required(&bundle.get("path"), errors);
    check::non_reserved_path(&bundle.get("path"), errors);
}

fn ephemeral(volume: &Node<'_>, source: &Node<'_>, pod: &str, errors: &mut Errors) {
    let template = source.get("volumeClaimTemplate");
    if template.is_set() {
        let metadata = template.get("metadata");
        meta::annotations(&metadata.get("annotations"), errors);
        meta::labels(&metadata.get("labels"), errors);
        claim_spec(&template.get("spec"), errors);
    }
    let name = volume.get("name");
    if pod.is_empty() || name.is_empty() {
        return;
    }
    let claim = format!("{pod}-{}", name.text());
    for message in text::dns_subdomain(&claim) {
        let detail = format!("PVC name {}: {message}", insula_gotext::quote(&claim));
        errors.push(name.invalid(&detail));
    }
}

const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// Validates the access modes of a volume.
pub(in crate::validate) fn access_modes(modes: &Node<'_>, errors: &mut Errors) {
    let (mut exclusive, mut shared) = (false, false);
    for mode in modes.items() {
        let known = ACCESS_MODES.contains(&mode.text());
        if !known {
            errors.push(mode.at(modes.path.clone()).not_supported(ACCESS_MODES));
        }
        exclusive |= mode.text() == "ReadWriteOncePod";
        shared |= known && mode.text() != "ReadWriteOncePod";
    }
    if exclusive && shared {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(modes.forbidden(detail));
    }
}

/// Validates the spec of a claim.
pub(in crate::validate) fn claim_spec(spec: &Node<'_>, errors: &mut Errors) {
    let modes = spec.get("accessModes");
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    meta::selector(&spec.get("selector"), errors);
    access_modes(&modes, errors);
    let storage = spec.get("resources").get("requests").get("storage");
    let place = spec.path.field("resources").key("storage");
    let storage = storage.at(place);
    if !storage.is_set() {
        errors.push(storage.required(""));
    } else if Amount::of(&storage).sign().is_le() {
        errors.push(storage.invalid("must be greater than zero"));
    } else {
        resource_value(&storage, "storage", errors);
    }
    check::format_if_set(&spec.get("storageClassName"), text::dns_subdomain, errors);
    check::one_of_if_set(&spec.get("volumeMode"), &["Block", "Filesystem"], errors);
    for field in ["dataSource", "dataSourceRef"] {
        data_source(&spec.get(field), errors);
    }
    check::format_if_set(
        &spec.get("volumeAttributesClassName"),
        text::dns_subdomain,
        errors,
    );
}

fn data_source(source: &Node<'_>, errors: &mut Errors) {
    if !source.is_set() {
        return;
    }
    check::required(&source.get("name"), errors);
    check::required(&source.get("kind"), errors);
    let (group, kind) = (source.get("apiGroup"), source.get("kind").text());
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(source.invalid_as(&kind.into(), detail));
    }
    check::format_if_set(&group, text::dns_subdomain, errors);
    check::format_if_set(&source.get("namespace"), text::dns_label, errors);
}
