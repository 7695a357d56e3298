//! Whether an object is paused: then it is not reconciled, and its finalizer stays.

use std::fmt::Debug;

use insula_operator::commit;
use insula_operator::condition::{ConditionWriter, Conditions};
use insula_operator::provider::{Provider, Reconciliation};
use insula_operator::retry::Outcome;
use k8s_openapi::jiff::Timestamp;
use kube::core::object::HasStatus;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

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
pub fn set_condition(writer: &mut ConditionWriter<'_>, why: Option<&str>) {
    match why {
        Some(why) => writer.set_true(CONDITION, "Paused", why),
        None => writer.set_false(CONDITION, "NotPaused", ""),
    }
}

/// Reports that an object is paused, and ends its use of a session.
///
/// # Errors
///
/// If the API server refuses the write.
pub async fn pause<P: Provider, K>(
    of: &Reconciliation<'_, P>,
    objects: &Api<K>,
    object: &K,
    why: &str,
) -> Result<Outcome, kube::Error>
where
    K: Resource + HasStatus<Status: Conditions + Default>,
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    of.release_session();
    let mut after = object.clone();
    set_condition(
        &mut ConditionWriter::of(&mut after, Timestamp::now()),
        Some(why),
    );
    commit::status(objects, object, &after).await?;
    Ok(Outcome::Settled(of.resync_after()))
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
