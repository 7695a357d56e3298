//! Labels and annotations of a node that is deleted, which its kubelet does not restore. They are
//! kept in annotations of the remediation. No I/O.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::kinds::remediation::Metal3Remediation;

/// Annotation of remediations with the annotations of the node, as JSON.
const ANNOTATIONS: &str = "remediation.metal3.io/node-annotations-backup";
/// Annotation of remediations with the labels of the node, as JSON.
const LABELS: &str = "remediation.metal3.io/node-labels-backup";
/// The size from which annotations of the node are not kept: an object has at most 256 KiB.
const MAX_BYTES: usize = 192 << 10;

/// Returns a map as the text of an annotation.
fn text(map: &BTreeMap<String, String>) -> String {
    json!(map).to_string()
}

/// Labels and annotations of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Backup {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Backup {
    /// Returns what a remediation has. Content that cannot be read is none: users can write it.
    pub(super) fn of(remediation: &Metal3Remediation) -> Self {
        let map = |name: &str| {
            let text = remediation.annotations().get(name);
            let map = text.and_then(|text| serde_json::from_str(text).ok());
            map.unwrap_or_default()
        };
        Self {
            labels: map(LABELS),
            annotations: map(ANNOTATIONS),
        }
    }

    /// Returns it with what a node has. A node that was created anew lacks what an earlier attempt
    /// has recorded and not restored yet, so nothing is removed.
    pub(super) fn with(&self, node: &Node) -> Self {
        let merge = |kept: &BTreeMap<String, String>, newer: &BTreeMap<String, String>| {
            let mut all = kept.clone();
            all.extend(newer.clone());
            all
        };
        let all = Self {
            labels: merge(&self.labels, node.labels()),
            annotations: merge(&self.annotations, node.annotations()),
        };
        // Quotes and line breaks count twice in the annotation that records them.
        match text(&all.annotations).len() > MAX_BYTES {
            true => Self {
                annotations: BTreeMap::new(),
                ..all
            },
            false => all,
        }
    }

    /// Returns the annotations of the remediation that record it, as fields of a merge patch.
    pub(super) fn fields(&self) -> Value {
        json!({ LABELS: text(&self.labels), ANNOTATIONS: text(&self.annotations) })
    }

    /// Returns the fields of a merge patch that remove the record.
    pub(super) fn cleared() -> Value {
        json!({ LABELS: null, ANNOTATIONS: null })
    }

    /// Returns whether there is nothing to restore.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the metadata that a node lacks, as fields of a merge patch; none if it has all.
    /// What the new node has counts.
    pub(super) fn missing(&self, node: &Node) -> Option<Value> {
        let lacking = |kept: &BTreeMap<String, String>, found: &BTreeMap<String, String>| {
            let kept = kept.iter().filter(|(name, _)| !found.contains_key(*name));
            let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
            kept.collect::<BTreeMap<_, _>>()
        };
        let labels = lacking(&self.labels, node.labels());
        let annotations = lacking(&self.annotations, node.annotations());
        match labels.is_empty() && annotations.is_empty() {
            true => None,
            false => Some(json!({"labels": labels, "annotations": annotations})),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: Value, annotations: Value) -> Node {
        let metadata = json!({"name": "n", "labels": labels, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn m08_labels_and_annotations_of_a_deleted_node_are_restored() {
        let before = node(json!({"a": "1", "b": "2"}), json!({"x": "y"}));
        let kept = Backup::default().with(&before);
        let mut remediation = Metal3Remediation::default();
        let fields: BTreeMap<String, String> = serde_json::from_value(kept.fields()).unwrap();
        remediation.annotations_mut().extend(fields);
        assert_eq!(Backup::of(&remediation), kept);
        assert_eq!(kept.with(&before), kept);
        let anew = node(json!({"a": "3"}), json!({}));
        let missing = json!({"labels": {"b": "2"}, "annotations": {"x": "y"}});
        assert_eq!(kept.missing(&anew), Some(missing));
        assert_eq!(kept.missing(&before), None);
        // A second attempt loses nothing, and takes over what is newer.
        let again = kept.with(&anew);
        assert_eq!(again.labels["a"], "3");
        assert_eq!(again.labels["b"], "2");
        assert!(Backup::default().is_empty() && !kept.is_empty());
    }

    #[test]
    fn m08_record_that_cannot_be_read_is_none() {
        let mut remediation = Metal3Remediation::default();
        let annotations = remediation.annotations_mut();
        annotations.insert(LABELS.to_owned(), "{".to_owned());
        assert!(Backup::of(&remediation).is_empty());
        // Quotes take two bytes each in the record.
        let large = "\"".repeat(MAX_BYTES / 2);
        let kept = Backup::default().with(&node(json!({"a": "1"}), json!({ "x": large })));
        assert_eq!(kept.labels.len(), 1);
        assert!(kept.annotations.is_empty());
    }
}
