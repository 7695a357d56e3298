//! Marking objects for deletion, with a deletion timestamp.

use insula_custom::condition::{self, Condition, set_condition};
use insula_kinds::{Kind, Object, Value, time};
use serde_json::json;

use super::DeleteOptions;
use crate::registry::Address;
use crate::write::metadata;
use crate::write::propagation::set_propagation_finalizers;

/// The effect of a delete on an object.
pub enum Mark {
    /// Nothing delays the deletion: the object is removed at once.
    Remove,
    /// The object is marked, and is removed after its finalizers and its grace period.
    Changed,
    /// The object was marked before.
    Unchanged,
}

/// Marks the object if a finalizer, a grace period or the garbage collector delays its deletion.
pub fn mark(address: &Address, object: &mut Object, options: &DeleteOptions) -> Mark {
    let kind = address.of();
    let marked = metadata::text(object, "deletionTimestamp").is_some();
    if marked && metadata::spec_finalizers(kind, object).next().is_some() {
        return Mark::Unchanged;
    }
    let was = object
        .get("metadata")
        .and_then(|of| of.get("deletionGracePeriodSeconds"));
    let was = was.and_then(Value::as_i64).unwrap_or(0);
    let is_pod = kind.kind == "Pod" && kind.group.is_empty();
    let ending = is_pod && marked && was > 0;
    let grace = match is_pod {
        true if ending => shorter_grace(options, was),
        true if !marked => Some(pod_grace(object, options)),
        _ => Some(0),
    };
    let Some(grace) = grace else {
        return Mark::Unchanged;
    };
    // Propagation to the dependents of a definition is decided after its custom objects are gone.
    let changed = match address.kind.is(insula_cache::definitions()) && !marked {
        true => add_definition_finalizer(object),
        false => set_propagation_finalizers(kind, object, options.policy),
    };
    let held = grace > 0
        || metadata::finalizers(object).next().is_some()
        || metadata::spec_finalizers(kind, object).next().is_some();
    match (held, marked && !ending, changed) {
        (false, _, _) => {
            // The response shows a pod with the grace period that it got: none.
            if is_pod && (!marked || ending) {
                set_mark(kind, object, grace, marked);
            }
            return Mark::Remove;
        }
        (true, true, false) => return Mark::Unchanged,
        (true, true, true) => return Mark::Changed,
        (true, false, _) => {}
    }
    set_mark(kind, object, grace, marked);
    Mark::Changed
}

fn set_mark(kind: &Kind, object: &mut Object, grace: i64, marked: bool) {
    let of = metadata::of(object);
    of.insert(
        "deletionTimestamp".to_owned(),
        timestamp_after(grace).into(),
    );
    if !metadata::has_spec_finalizers(kind) {
        of.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    }
    if let Some(generation) = of
        .get("generation")
        .and_then(Value::as_i64)
        .filter(|_| !marked)
    {
        of.insert("generation".to_owned(), generation.saturating_add(1).into());
    }
    if metadata::has_spec_finalizers(kind) {
        let status = object.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.insert("phase".to_owned(), "Terminating".into());
        }
    }
}

/// Returns the grace period of a pod: that of the request, else its own. A pod that is not
/// running has none.
fn pod_grace(pod: &Object, options: &DeleteOptions) -> i64 {
    let member = |part: &str, name: &str| pod.get(part).and_then(|of| of.get(name)).cloned();
    let own = member("spec", "terminationGracePeriodSeconds").and_then(|value| value.as_i64());
    let asked = options.grace.or(own).unwrap_or(30);
    let phase = member("status", "phase");
    let phase = phase.as_ref().and_then(Value::as_str).unwrap_or("");
    let node = member("spec", "nodeName");
    let scheduled = node
        .as_ref()
        .and_then(Value::as_str)
        .is_some_and(|node| !node.is_empty());
    if !scheduled || phase == "Succeeded" || phase == "Failed" {
        return 0;
    }
    if asked < 0 { 1 } else { asked }
}

/// Returns the new grace period of a terminating pod, which can only become shorter.
fn shorter_grace(options: &DeleteOptions, was: i64) -> Option<i64> {
    let asked = if options.grace? < 0 {
        1
    } else {
        options.grace?
    };
    (asked < was).then_some(asked)
}

fn timestamp_after(seconds: i64) -> String {
    let at = jiff::Timestamp::now().as_second().saturating_add(seconds);
    jiff::Timestamp::from_second(at).map_or_else(|_| time::now(), |at| at.to_string())
}

/// Adds the finalizer that keeps a definition until its custom objects are deleted. Returns
/// `true`, because the definition changed.
fn add_definition_finalizer(definition: &mut Object) -> bool {
    let mut held: Vec<Value> = metadata::finalizers(definition).map(Value::from).collect();
    if !held.iter().any(|name| name == condition::FINALIZER) {
        held.push(condition::FINALIZER.into());
    }
    metadata::of(definition).insert("finalizers".to_owned(), held.into());
    let status = definition.entry("status").or_insert_with(|| json!({}));
    if let Value::Object(status) = status {
        set_condition(status, &Condition::deletion_pending(), &time::now());
    }
    true
}
