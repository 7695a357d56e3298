//! Whether an object is paused: then it is not reconciled, and its finalizer stays.

use insula_operator::condition::{self, NewCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};

use crate::kinds::Cluster;
use crate::names::PAUSED;

/// The type of the condition.
pub const CONDITION: &str = "Paused";

/// Returns why an object is paused, as the message of the condition; none if it is not.
pub fn paused(cluster: Option<&Cluster>, object: &impl Resource, kind: &str) -> Option<String> {
    let by_cluster = cluster.is_some_and(|cluster| cluster.spec.paused == Some(true));
    let by_annotation = object.annotations().contains_key(PAUSED);
    let mut reasons = Vec::new();
    if by_cluster {
        reasons.push("Cluster spec.paused is set to true".to_owned());
    }
    if by_annotation {
        reasons.push(format!("{kind} has the {PAUSED} annotation"));
    }
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

/// Sets the condition `Paused`.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    why: Option<&str>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let said = NewCondition {
        kind: CONDITION,
        status: why.is_some(),
        reason: if why.is_some() { "Paused" } else { "NotPaused" },
        message: why.unwrap_or_default().to_owned(),
        generation,
    };
    condition::set(conditions, said, now);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Machine;

    #[test]
    fn paused_message_names_cluster_and_annotation() {
        let cluster = |paused| {
            let mut cluster = Cluster::default();
            cluster.spec.paused = paused;
            cluster
        };
        let by_cluster = "Cluster spec.paused is set to true";
        let by_itself = "Machine has the cluster.x-k8s.io/paused annotation";
        let both = format!("{by_cluster}, {by_itself}");
        for (of_cluster, of_itself, expected) in [
            (None, None, None),
            (Some(None), None, None),
            (Some(Some(false)), None, None),
            (Some(Some(true)), None, Some(by_cluster)),
            (None, Some(""), Some(by_itself)),
            (Some(None), Some("false"), Some(by_itself)),
            (Some(Some(true)), Some("true"), Some(both.as_str())),
        ] {
            let mut object = Machine::default();
            if let Some(value) = of_itself {
                let annotations = object.annotations_mut();
                annotations.insert(PAUSED.to_owned(), value.to_owned());
            }
            let cluster = of_cluster.map(cluster);
            let why = paused(cluster.as_ref(), &object, "Machine");
            assert_eq!(why.as_deref(), expected);
        }
    }
}
