//! What is left, told in conditions.

use insula_kinds::{Object, Value, time};
use serde_json::json;

use crate::content::Remaining;

/// How a condition is named and worded for one kind of container.
#[derive(Clone, Copy, Debug)]
pub struct Wording {
    /// `Namespace` or `Tenant`: what the types of its conditions begin with.
    pub prefix: &'static str,
    /// `namespace` or `tenant`.
    pub called: &'static str,
}

/// Writes into `status.conditions` what is left. Whether anything was changed.
pub fn tell(object: &mut Object, wording: Wording, remaining: &Remaining) -> bool {
    let status = object.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else {
        return false;
    };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return false;
    };
    let mut changed = false;
    for (name, reason, message) in wanted(wording, remaining) {
        changed |= set(conditions, &name, reason, message);
    }
    changed
}

type Wanted = (String, &'static str, Option<String>);

fn wanted(wording: Wording, remaining: &Remaining) -> Vec<Wanted> {
    let Wording { prefix, called } = wording;
    let counted = |of: &std::collections::BTreeMap<String, usize>, word: &str| {
        let parts = of
            .iter()
            .map(|(what, count)| format!("{what} {word} {count} resource instances"));
        parts.collect::<Vec<_>>().join(", ")
    };
    let content = (!remaining.objects.is_empty()).then(|| {
        format!(
            "Some resources are remaining: {}",
            counted(&remaining.objects, "has")
        )
    });
    let finalizers = (!remaining.finalizers.is_empty()).then(|| {
        let list = counted(&remaining.finalizers, "in");
        format!("Some content in the {called} has finalizers remaining: {list}")
    });
    vec![
        (
            format!("{prefix}DeletionContentFailure"),
            "ContentDeleted",
            None,
        ),
        (
            format!("{prefix}ContentRemaining"),
            if content.is_some() {
                "SomeResourcesRemain"
            } else {
                "ContentRemoved"
            },
            content,
        ),
        (
            format!("{prefix}FinalizersRemaining"),
            if finalizers.is_some() {
                "SomeFinalizersRemain"
            } else {
                "ContentHasNoFinalizers"
            },
            finalizers,
        ),
    ]
}

/// A condition with a message is true, one without is false.
fn set(conditions: &mut Vec<Value>, name: &str, reason: &str, message: Option<String>) -> bool {
    let status = if message.is_some() { "True" } else { "False" };
    let message = message.unwrap_or_else(|| {
        match reason {
            "ContentDeleted" => "All content successfully deleted, may be waiting on finalization",
            "ContentRemoved" => "All content successfully removed",
            _ => "All content-preserving finalizers finished",
        }
        .to_owned()
    });
    let found = conditions
        .iter_mut()
        .find(|condition| condition["type"] == name);
    let mut wanted = json!({
        "type": name, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": time::now(),
    });
    match found {
        Some(found) => {
            if found["status"] == wanted["status"] {
                wanted["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            let changed = *found != wanted;
            *found = wanted;
            changed
        }
        None => {
            conditions.push(wanted);
            true
        }
    }
}
