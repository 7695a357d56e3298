//! What pods refer to.

use insula_kinds::{Object, Value};

/// The kind of an object that pods refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Secret: of environment variables, volumes and image pulls.
    Secret,
    /// A ConfigMap: of environment variables and volumes.
    ConfigMap,
    /// A PersistentVolumeClaim, also one that is made for an ephemeral volume.
    Claim,
    /// A ResourceClaim, also one that is made from a template.
    ResourceClaim,
    /// The pod's ServiceAccount.
    ServiceAccount,
}

/// The annotation of pods that a kubelet creates for its static pods.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// Returns the node in the spec of a pod or of a volume attachment; empty if it has none.
pub fn node_of(object: &Object) -> &str {
    text(object.get("spec"), "nodeName").unwrap_or("")
}

/// Whether the annotations mark a mirror pod.
pub fn is_mirror_pod(pod: &Object) -> bool {
    let annotations = pod.get("metadata").and_then(|of| of.get("annotations"));
    annotations.is_some_and(|annotations| annotations.get(MIRROR_POD).is_some())
}

/// Whether the pod refers to the object of this name. A mirror pod refers to nothing: the kubelet
/// that created it chose its content.
pub fn refers_to(pod: &Object, target: Target, name: &str) -> bool {
    if is_mirror_pod(pod) {
        return false;
    }
    references(pod, target).any(|found| found == name)
}

/// Whether the pod refers to any object of the kind.
pub fn refers_to_any(pod: &Object, target: Target) -> bool {
    references(pod, target).next().is_some()
}

fn references(pod: &Object, target: Target) -> impl Iterator<Item = String> {
    let mut names = Vec::new();
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    match target {
        Target::Secret => visit(spec, &mut |key, value| match key {
            "secretKeyRef" | "secretRef" | "nodePublishSecretRef" => {
                names.extend(text(Some(value), "name").map(str::to_owned));
            }
            // A volume has `secretName`, a source of a projected one `name`.
            "secret" | "azureFile" => {
                let found = text(Some(value), "secretName").or_else(|| text(Some(value), "name"));
                names.extend(found.map(str::to_owned));
            }
            "imagePullSecrets" => {
                let secrets = value.as_array().into_iter().flatten();
                let found = secrets.filter_map(|secret| text(Some(secret), "name"));
                names.extend(found.map(str::to_owned));
            }
            _ => {}
        }),
        Target::ConfigMap => visit(spec, &mut |key, value| {
            if matches!(key, "configMapKeyRef" | "configMapRef" | "configMap") {
                names.extend(text(Some(value), "name").map(str::to_owned));
            }
        }),
        Target::Claim => {
            let own = text(pod.get("metadata"), "name").unwrap_or("");
            for volume in items(spec.get("volumes")) {
                let claim = volume.get("persistentVolumeClaim");
                names.extend(text(claim, "claimName").map(str::to_owned));
                if volume.get("ephemeral").is_some() {
                    let volume = text(Some(volume), "name").unwrap_or("");
                    names.push(format!("{own}-{volume}"));
                }
            }
        }
        Target::ResourceClaim => {
            let made = pod
                .get("status")
                .and_then(|of| of.get("resourceClaimStatuses"));
            for claim in items(spec.get("resourceClaims")).chain(items(made)) {
                names.extend(text(Some(claim), "resourceClaimName").map(str::to_owned));
            }
        }
        Target::ServiceAccount => {
            names.extend(text(Some(spec), "serviceAccountName").map(str::to_owned));
        }
    }
    names.retain(|name| !name.is_empty());
    names.into_iter()
}

/// Calls `visitor` with every member of the value, at any depth.
fn visit(value: &Value, visitor: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                visitor(key, member);
                visit(member, visitor);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, visitor)),
        _ => {}
    }
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(object: Option<&'a Value>, member: &str) -> Option<&'a str> {
    object?.get(member)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Object {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {
                "serviceAccountName": "robot",
                "nodeName": "n1",
                "imagePullSecrets": [{"name": "pull"}],
                "initContainers": [{"env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "init", "key": "k"}}},
                ]}],
                "containers": [{
                    "env": [
                        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "k"}}},
                        {"name": "secret", "value": "plain"},
                    ],
                    "envFrom": [{"secretRef": {"name": "all"}}, {"configMapRef": {"name": "maps"}}],
                }],
                "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "debug"}}]}],
                "volumes": [
                    {"name": "a", "secret": {"secretName": "volume"}},
                    {"name": "b", "configMap": {"name": "files"}},
                    {"name": "c", "projected": {"sources": [
                        {"secret": {"name": "projected"}}, {"configMap": {"name": "ca"}},
                    ]}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
                    {"name": "f", "csi": {"nodePublishSecretRef": {"name": "csi"}}},
                    {"name": "g", "azureFile": {"secretName": "azure", "shareName": "s"}},
                ],
                "resourceClaims": [{"name": "x", "resourceClaimName": "gpu"}],
            },
            "status": {"resourceClaimStatuses": [{"name": "y", "resourceClaimName": "made"}]},
        });
        pod.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn pod_refers_to_what_its_containers_and_volumes_name() {
        let pod = pod();
        for (target, names) in [
            (
                Target::Secret,
                &[
                    "pull",
                    "init",
                    "all",
                    "debug",
                    "volume",
                    "projected",
                    "csi",
                    "azure",
                ][..],
            ),
            (Target::ConfigMap, &["env", "maps", "files", "ca"]),
            (Target::Claim, &["claim", "p-e"]),
            (Target::ResourceClaim, &["gpu", "made"]),
            (Target::ServiceAccount, &["robot"]),
        ] {
            let mut found: Vec<String> = references(&pod, target).collect();
            let mut names: Vec<&str> = names.to_vec();
            found.sort();
            names.sort_unstable();
            assert_eq!(found, names, "{target:?}");
            assert!(names.iter().all(|name| refers_to(&pod, target, name)));
            assert!(!refers_to(&pod, target, "other") && !refers_to(&pod, target, ""));
        }
        assert_eq!(node_of(&pod), "n1");
    }

    #[test]
    fn mirror_pod_refers_to_nothing() {
        let mut pod = pod();
        pod["metadata"]["annotations"] = json!({MIRROR_POD: "hash"});
        assert!(!refers_to(&pod, Target::Secret, "volume"));
        assert!(!refers_to(&pod, Target::ServiceAccount, "robot"));
    }
}
