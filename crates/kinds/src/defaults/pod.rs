//! Pods and what they are made of, wherever it occurs.

use serde_json::Value;

use super::{Rule, image, tree};
use crate::Object;

pub(super) const RULES: &[Rule] = &[
    Rule::run("api.core.v1.Pod", pod),
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

/// What holds for a Pod only, not for a template of one.
fn pod(pod: &mut Object) {
    let spec = tree::child_mut(pod, "spec");
    let host_network = tree::truth(spec, "hostNetwork");
    for containers in ["containers", "initContainers"] {
        for container in tree::items_mut(spec, containers) {
            request_limits(container);
            if host_network {
                open_host_ports(container);
            }
        }
    }
    tree::fill(spec, "enableServiceLinks", true);
}

/// Who limits a resource and requests none requests the limit.
fn request_limits(container: &mut Object) {
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

/// On the host's network a container's port is the host's.
fn open_host_ports(container: &mut Object) {
    for port in tree::items_mut(container, "ports") {
        let number = tree::number(port, "containerPort");
        tree::fill_empty(port, "hostPort", number);
    }
}

fn container(container: &mut Object) {
    let policy = image::pull_policy(tree::text(container, "image"));
    tree::fill_empty(container, "imagePullPolicy", policy);
}

/// A volume from nowhere is an empty directory.
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
