//! Warnings about pods that are valid and probably not meant like that.

use crate::validate::tree::Node;

/// Returns warnings about a pod's spec.
pub(in crate::validate) fn warnings(spec: &Node<'_>) -> Vec<String> {
    let affinity = spec.get("affinity");
    let mut selectors: Vec<Node<'_>> = Vec::new();
    for sort in ["podAffinity", "podAntiAffinity"] {
        let affinity = affinity.get(sort);
        let required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution");
        selectors.extend(required.items().map(|term| term.get("labelSelector")));
        let preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution");
        let terms = preferred.items().map(|term| term.get("podAffinityTerm"));
        selectors.extend(terms.map(|term| term.get("labelSelector")));
    }
    let spread = spec.get("topologySpreadConstraints");
    selectors.extend(spread.items().map(|each| each.get("labelSelector")));
    selectors
        .iter()
        .filter(|selector| !selector.is_set())
        .map(|selector| {
            let path = &selector.path;
            format!("{path}: a null labelSelector results in matching no pod")
        })
        .collect()
}
