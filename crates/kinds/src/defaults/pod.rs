//! Defaults of pods and the types they contain.

use serde_json::Value;

use super::{Rule, image, resources, tree};
use crate::Object;

/// Annotations that held `initContainers` before they were a field.
const OBSOLETE_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

pub(super) const RULES: &[Rule] = &[
    Rule::run("api.core.v1.Pod", pod),
    Rule::run("api.core.v1.Pod", drop_obsolete_annotations),
    Rule::run("api.core.v1.PodTemplateSpec", drop_obsolete_annotations),
    Rule::run("api.core.v1.PodSpec", service_account),
    Rule::run("api.core.v1.PodStatus", |status| {
        let address = |ip: &str| serde_json::json!({"ip": ip});
        sync_value_and_list(status, ["podIP", "podIPs"], address, |first| {
            first.get("ip")
        });
    }),
    Rule::run("api.core.v1.NodeSpec", |spec| {
        sync_value_and_list(
            spec,
            ["podCIDR", "podCIDRs"],
            |cidr| cidr.into(),
            |cidr| Some(cidr),
        );
    }),
    Rule::set(
        "api.core.v1.PodSpec",
        &[
            ("dnsPolicy", r#""ClusterFirst""#),
            ("restartPolicy", r#""Always""#),
            ("securityContext", "{}"),
            ("terminationGracePeriodSeconds", "30"),
            ("schedulerName", r#""default-scheduler""#),
        ],
    ),
    Rule::set(
        "api.core.v1.Container",
        &[
            ("terminationMessagePath", r#""/dev/termination-log""#),
            ("terminationMessagePolicy", r#""File""#),
        ],
    ),
    Rule::run("api.core.v1.Container", container),
    Rule::set(
        "api.core.v1.EphemeralContainerCommon",
        &[
            ("terminationMessagePath", r#""/dev/termination-log""#),
            ("terminationMessagePolicy", r#""File""#),
        ],
    ),
    Rule::run("api.core.v1.EphemeralContainerCommon", container),
    Rule::set(
        "api.core.v1.Probe",
        &[
            ("timeoutSeconds", "1"),
            ("periodSeconds", "10"),
            ("successThreshold", "1"),
            ("failureThreshold", "3"),
        ],
    ),
    Rule::set(
        "api.core.v1.HTTPGetAction",
        &[("path", r#""/""#), ("scheme", r#""HTTP""#)],
    ),
    Rule::set("api.core.v1.GRPCAction", &[("service", r#""""#)]),
    Rule::set("api.core.v1.FileKeySelector", &[("optional", "false")]),
    Rule::set(
        "api.core.v1.ObjectFieldSelector",
        &[("apiVersion", r#""v1""#)],
    ),
    Rule::run("api.core.v1.Volume", volume),
    Rule::set("api.core.v1.HostPathVolumeSource", &[("type", r#""""#)]),
    Rule::set("api.core.v1.SecretVolumeSource", &[("defaultMode", "420")]),
    Rule::set(
        "api.core.v1.ConfigMapVolumeSource",
        &[("defaultMode", "420")],
    ),
    Rule::set(
        "api.core.v1.DownwardAPIVolumeSource",
        &[("defaultMode", "420")],
    ),
    Rule::set(
        "api.core.v1.ProjectedVolumeSource",
        &[("defaultMode", "420")],
    ),
    Rule::set(
        "api.core.v1.ServiceAccountTokenProjection",
        &[("expirationSeconds", "3600")],
    ),
    Rule::set(
        "api.core.v1.AzureDiskVolumeSource",
        &[("readOnly", "false")],
    ),
];

/// Defaults of Pods that do not apply to pod templates.
fn pod(pod: &mut Object) {
    let spec = tree::child_mut(pod, "spec");
    let host_network = tree::boolean(spec, "hostNetwork");
    for containers in ["containers", "initContainers"] {
        for container in tree::items_mut(spec, containers) {
            default_requests_to_limits(container);
            if host_network {
                default_host_ports(container);
            }
        }
    }
    resources::default_pod_resources(spec);
    tree::fill(spec, "enableServiceLinks", true);
    // Templates keep a negative period, as they always have in Kubernetes.
    if tree::number(spec, "terminationGracePeriodSeconds") < 0 {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
}

fn drop_obsolete_annotations(holder: &mut Object) {
    let annotations = tree::existing_mut(holder, "metadata")
        .and_then(|metadata| tree::existing_mut(metadata, "annotations"));
    if let Some(annotations) = annotations {
        annotations.retain(|key, _| !OBSOLETE_ANNOTATIONS.contains(&key.as_str()));
    }
}

/// The service account has two field names; `serviceAccountName` wins.
fn service_account(spec: &mut Object) {
    if tree::is_empty(spec, "serviceAccountName") {
        tree::copy_if_set(spec, "serviceAccount", "serviceAccountName");
    }
    tree::copy_if_set(spec, "serviceAccountName", "serviceAccount");
}

/// Keeps a value and the list that starts with it in sync. The value wins, since clients
/// that do not know the list write only the value.
fn sync_value_and_list(
    object: &mut Object,
    [one, many]: [&str; 2],
    wrap: fn(&str) -> Value,
    unwrap: fn(&Value) -> Option<&Value>,
) {
    let first = tree::list(object, many).first().and_then(unwrap).cloned();
    match (tree::text(object, one), first) {
        ("", Some(first)) => {
            object.insert(one.to_owned(), first);
        }
        ("", None) => {}
        (value, first) if first.as_ref().and_then(Value::as_str) != Some(value) => {
            let list = vec![wrap(value)];
            object.insert(many.to_owned(), list.into());
        }
        _ => {}
    }
}

/// A container that limits a resource without requesting it requests the limit.
fn default_requests_to_limits(container: &mut Object) {
    let Some(resources) = tree::existing_mut(container, "resources") else {
        return;
    };
    let Some(limits) = tree::child(resources, "limits").cloned() else {
        return;
    };
    let requests = tree::child_mut(resources, "requests");
    for (resource, amount) in limits {
        requests.entry(resource).or_insert(amount);
    }
}

/// On the host network a container port is also a host port.
fn default_host_ports(container: &mut Object) {
    for port in tree::items_mut(container, "ports") {
        let number = tree::number(port, "containerPort");
        tree::fill_empty(port, "hostPort", number);
    }
}

fn container(container: &mut Object) {
    let policy = image::pull_policy(tree::text(container, "image"));
    tree::fill_empty(container, "imagePullPolicy", policy);
}

/// A volume without a source is an empty directory.
fn volume(volume: &mut Object) {
    let sourced = volume
        .iter()
        .any(|(json, value)| json != "name" && !value.is_null());
    if !sourced {
        volume.insert("emptyDir".to_owned(), Value::Object(Object::new()));
    }
    if let Some(source) = tree::existing_mut(volume, "image") {
        let policy = image::pull_policy(tree::text(source, "reference"));
        tree::fill_empty(source, "pullPolicy", policy);
    }
}
