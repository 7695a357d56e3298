//! The out-of-service taint of a node whose host is off, and what it evicts. No I/O.

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::version::Info;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

/// The key of the taint: Kubernetes deletes the pods of such a node and detaches their volumes at
/// once, without waiting for the kubelet.
const KEY: &str = "node.kubernetes.io/out-of-service";
const VALUE: &str = "nodeshutdown";
const EFFECT: &str = "NoExecute";
/// Annotation of pods that a kubelet has from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The first version of Kubernetes that acts on the taint without a feature gate.
const MIN_VERSION: (u32, u32) = (1, 28);

/// Returns whether a cluster acts on the taint.
pub(super) fn is_supported(version: &Info) -> bool {
    // Some distributions write the minor version as `28+`.
    let number = |text: &str| {
        let end = text.find(|letter: char| !letter.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse::<u32>().ok()
    };
    match (number(&version.major), number(&version.minor)) {
        (Some(major), Some(minor)) => (major, minor) >= MIN_VERSION,
        _ => false,
    }
}

/// Returns whether a node has the taint.
pub(super) fn is_tainted(node: &Node) -> bool {
    taints(node).iter().any(is_out_of_service)
}

/// Returns the taints of a node with the out-of-service taint.
pub(super) fn tainted(node: &Node, now: Timestamp) -> Vec<Taint> {
    let mut all = without_taint(node);
    all.push(Taint {
        key: KEY.to_owned(),
        value: Some(VALUE.to_owned()),
        effect: EFFECT.to_owned(),
        time_added: Some(insula_operator::condition::seconds(now)),
    });
    all
}

/// Returns the taints of a node without the out-of-service taint.
pub(super) fn without_taint(node: &Node) -> Vec<Taint> {
    let others = taints(node)
        .iter()
        .filter(|taint| !is_out_of_service(taint));
    others.cloned().collect()
}

fn taints(node: &Node) -> &[Taint] {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.map_or(&[], Vec::as_slice)
}

/// An administrator may have written another value.
fn is_out_of_service(taint: &Taint) -> bool {
    taint.key == KEY && taint.effect == EFFECT
}

/// Returns whether a pod is still to be evicted by the taint.
pub(super) fn is_to_evict(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    let spec = pod.spec.as_ref();
    let tolerations = spec.and_then(|spec| spec.tolerations.as_ref());
    let stays = tolerations.is_some_and(|all| all.iter().any(tolerates));
    !is_over && !stays && !pod.annotations().contains_key(MIRROR)
}

fn tolerates(toleration: &Toleration) -> bool {
    let is_empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key = match exists && is_empty(&toleration.key) {
        true => true,
        false => toleration.key.as_deref() == Some(KEY),
    };
    let value = exists || toleration.value.as_deref() == Some(VALUE);
    let effect = is_empty(&toleration.effect) || toleration.effect.as_deref() == Some(EFFECT);
    key && value && effect && toleration.toleration_seconds.is_none()
}

/// Returns whether a volume is attached to a node.
pub(super) fn is_attached_to(attachment: &VolumeAttachment, node: &str) -> bool {
    attachment.spec.node_name == node
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(taints: Value) -> Node {
        serde_json::from_value(json!({"metadata": {}, "spec": {"taints": taints}})).unwrap()
    }

    #[test]
    fn m07_taint_is_added_once_and_others_stay() {
        let other = json!({"key": "a", "effect": "NoExecute"});
        let before = node(json!([other]));
        assert!(!is_tainted(&before));
        let taints = tainted(&before, Timestamp::UNIX_EPOCH);
        assert_eq!(
            serde_json::to_value(&taints).unwrap(),
            json!([other, {
                "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown",
                "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:00Z",
            }])
        );
        let after = node(json!(taints));
        assert!(is_tainted(&after));
        assert_eq!(tainted(&after, Timestamp::UNIX_EPOCH).len(), 2);
        assert_eq!(json!(without_taint(&after)), json!([other]));
        assert!(!is_tainted(&Node::default()));
    }

    #[test]
    fn m07_clusters_from_1_28_on_act_on_the_taint() {
        for (major, minor, expected) in [
            ("1", "27", false),
            ("1", "28", true),
            ("1", "28+", true),
            ("1", "9", false),
            ("2", "0", true),
            ("", "", false),
        ] {
            let version = Info {
                major: major.to_owned(),
                minor: minor.to_owned(),
                ..Info::default()
            };
            assert_eq!(is_supported(&version), expected, "{major}.{minor}");
        }
    }

    #[test]
    fn m07_node_is_drained_when_only_tolerating_pods_are_left() {
        let key = "node.kubernetes.io/out-of-service";
        for (pod, expected) in [
            (json!({}), true),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                true,
            ),
            (json!({"status": {"phase": "Succeeded"}}), false),
            (
                json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "h"}}}),
                false,
            ),
            (
                json!({"spec": {"containers": [], "tolerations": [{"operator": "Exists"}]}}),
                false,
            ),
            (
                json!({"spec": {"containers": [], "tolerations": [
                    {"operator": "Exists", "effect": "NoSchedule"},
                ]}}),
                true,
            ),
            (
                json!({"spec": {"containers": [], "tolerations": [
                    {"key": key, "value": "nodeshutdown", "effect": "NoExecute"},
                ]}}),
                false,
            ),
            (
                json!({"spec": {"containers": [], "tolerations": [
                    {"key": key, "operator": "Exists", "tolerationSeconds": 5},
                ]}}),
                true,
            ),
            (
                json!({"spec": {"containers": [], "tolerations": [
                    {"key": "node.kubernetes.io/unreachable", "operator": "Exists"},
                ]}}),
                true,
            ),
        ] {
            let parsed: Pod = serde_json::from_value(pod.clone()).unwrap();
            assert_eq!(is_to_evict(&parsed), expected, "{pod}");
        }
    }
}
