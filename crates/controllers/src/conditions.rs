//! Conditions that tell why an object that is being deleted still exists.

use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Result;
use insula_apiserver::write::{Modified, Modify, modify};
use insula_kinds::{Object, Value, time};
use serde_json::json;

use crate::terminate::{Remaining, uid};

/// One condition.
#[derive(Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: &'static str,
    /// Whether its status is `True`.
    pub holds: bool,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// The conditions of a namespace, with the wording and order of Kubernetes.
pub fn for_namespace(remaining: &Remaining) -> Vec<Condition> {
    let never_true = |kind, reason, message: &str| Condition {
        kind,
        holds: false,
        reason,
        message: message.to_owned(),
    };
    vec![
        never_true(
            "NamespaceDeletionDiscoveryFailure",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        never_true(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        never_true(
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        content_remaining("NamespaceContentRemaining", remaining),
        finalizers_remaining(
            "NamespaceFinalizersRemaining",
            "namespace",
            remaining,
            false,
        ),
    ]
}

/// The conditions of a tenant. They name one example object per finalizer.
pub fn for_tenant(remaining: &Remaining) -> Vec<Condition> {
    vec![
        content_remaining("TenantContentRemaining", remaining),
        finalizers_remaining("TenantFinalizersRemaining", "tenant", remaining, true),
    ]
}

fn content_remaining(kind: &'static str, remaining: &Remaining) -> Condition {
    let resources = remaining.resources.iter();
    let resources =
        resources.map(|(resource, count)| format!("{resource} has {count} resource instances"));
    let resources: Vec<_> = resources.collect();
    let (holds, reason, message) = match resources[..] {
        [] => (
            false,
            "ContentRemoved",
            "All content successfully removed".to_owned(),
        ),
        _ => (
            true,
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", resources.join(", ")),
        ),
    };
    Condition {
        kind,
        holds,
        reason,
        message,
    }
}

fn finalizers_remaining(
    kind: &'static str,
    of: &str,
    remaining: &Remaining,
    examples: bool,
) -> Condition {
    let finalizers = remaining.finalizers.iter();
    let finalizers = finalizers.map(|(name, (count, example))| {
        let example = match examples {
            true => format!(" such as {example}"),
            false => String::new(),
        };
        format!("{name} in {count} resource instances{example}")
    });
    let finalizers: Vec<_> = finalizers.collect();
    let (holds, reason, message) = match finalizers[..] {
        [] => (
            false,
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".to_owned(),
        ),
        _ => {
            let list = finalizers.join(", ");
            (
                true,
                "SomeFinalizersRemain",
                format!("Some content in the {of} has finalizers remaining: {list}"),
            )
        }
    };
    Condition {
        kind,
        holds,
        reason,
        message,
    }
}

/// Writes the conditions into the object's status, if it still has this UID and any of them is new.
pub async fn write(
    registry: &Registry,
    address: &Address,
    of: &str,
    conditions: &[Condition],
) -> Result<()> {
    let request = Modify::by_server(address, Some("status"));
    let now = time::now();
    let update = |object: &Object| {
        let mut object = object.clone();
        if uid(&object) == Some(of) {
            apply(&mut object, conditions, &now);
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    modify(registry, request, update).await.map(drop)
}

/// An unchanged condition keeps its transition time.
fn apply(object: &mut Object, conditions: &[Condition], now: &str) {
    let status = object.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else {
        return;
    };
    let existing = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(existing) = existing.as_array_mut() else {
        return;
    };
    for condition in conditions {
        let new = condition.to_json(now);
        match existing.iter_mut().find(|old| old["type"] == new["type"]) {
            None => existing.push(new),
            Some(old) => {
                let same = ["status", "reason", "message"];
                if !same.iter().all(|member| old[member] == new[member]) {
                    *old = new;
                }
            }
        }
    }
}

impl Condition {
    /// The condition as it is written in a status.
    pub fn to_json(&self, now: &str) -> Value {
        json!({
            "type": self.kind,
            "status": if self.holds { "True" } else { "False" },
            "lastTransitionTime": now,
            "reason": self.reason,
            "message": self.message,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining() -> Remaining {
        Remaining {
            resources: [("configmaps.".to_owned(), 2), ("jobs.batch".to_owned(), 1)].into(),
            finalizers: [("x.io/y".to_owned(), (3, "configmaps default/a".to_owned()))].into(),
        }
    }

    #[test]
    fn namespace_conditions_have_the_wording_of_kubernetes() {
        let existing = for_namespace(&remaining());
        let kinds: Vec<_> = existing.iter().map(|one| (one.kind, one.holds)).collect();
        assert_eq!(
            kinds,
            [
                ("NamespaceDeletionDiscoveryFailure", false),
                ("NamespaceDeletionGroupVersionParsingFailure", false),
                ("NamespaceDeletionContentFailure", false),
                ("NamespaceContentRemaining", true),
                ("NamespaceFinalizersRemaining", true),
            ]
        );
        assert_eq!(
            existing[3].message,
            "Some resources are remaining: configmaps. has 2 resource instances, jobs.batch has 1 \
             resource instances"
        );
        assert_eq!(
            existing[4].message,
            "Some content in the namespace has finalizers remaining: x.io/y in 3 resource instances"
        );
        assert!(
            for_namespace(&Remaining::default())
                .iter()
                .all(|one| !one.holds)
        );
    }

    #[test]
    fn tenant_condition_names_an_example_for_each_finalizer() {
        assert_eq!(
            for_tenant(&remaining())[1].message,
            "Some content in the tenant has finalizers remaining: x.io/y in 3 resource instances \
             such as configmaps default/a"
        );
    }

    #[test]
    fn unchanged_condition_keeps_its_transition_time() {
        let mut object = Object::new();
        apply(&mut object, &for_tenant(&remaining()), "then");
        let one = for_tenant(&Remaining {
            resources: [("jobs.batch".to_owned(), 1)].into(),
            ..remaining()
        });
        apply(&mut object, &one, "now");
        let existing = &object["status"]["conditions"];
        assert_eq!(existing.as_array().map(Vec::len), Some(2));
        assert_eq!(existing[0]["lastTransitionTime"], "now");
        assert_eq!(existing[1]["lastTransitionTime"], "then");
    }
}
