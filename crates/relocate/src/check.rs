//! Pure: whether clusters are fit to be moved.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::names::{DELETED_FOR_MOVE, MARK, PAUSED};
use crate::plan::Node;

/// How far a cluster is in being moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is at work.
    Working,
    /// This move has paused it.
    UnderWay,
    /// Somebody else has paused it.
    Paused,
    /// It is being moved somewhere else.
    Elsewhere,
}

/// How far a cluster, or a class, is. The mark says from where to where this move goes.
pub fn stage(node: &Node, object: &DynamicObject, mark: &str) -> Stage {
    let marked = object.annotations().get(MARK);
    let paused = match node.is_class() {
        true => object.annotations().contains_key(PAUSED),
        false => object.data["spec"]["paused"] == Value::Bool(true),
    };
    match (paused, marked) {
        (true, Some(marked)) if marked == mark => Stage::UnderWay,
        (true, Some(_)) => Stage::Elsewhere,
        (true, None) => Stage::Paused,
        (false, _) => Stage::Working,
    }
}

/// What keeps an object from being copied after everything was paused, if anything does:
/// somebody may have been faster than the pause, or may have ended it.
pub fn unrest(node: &Node, object: &DynamicObject, mark: &str) -> Option<String> {
    let pausable = node.is_cluster() || node.is_class();
    if pausable && stage(node, object, mark) == Stage::Working {
        return Some(format!("{node} is not paused"));
    }
    trouble(node, object, mark)
}

/// What keeps an object from being moved, if anything does.
pub fn trouble(node: &Node, object: &DynamicObject, mark: &str) -> Option<String> {
    if object.metadata.deletion_timestamp.is_some()
        && !object.annotations().contains_key(DELETED_FOR_MOVE)
    {
        return Some(format!("{node} is being deleted"));
    }
    if node.is_cluster() || node.is_class() {
        match stage(node, object, mark) {
            Stage::Working => {}
            // It was found fit when it was paused.
            Stage::UnderWay => return None,
            Stage::Paused => return Some(format!("{node} is paused")),
            Stage::Elsewhere => return Some(format!("{node} is being moved somewhere else")),
        }
    }
    let text = match (node.kind.as_str(), node.is_cluster()) {
        (_, true) => of_cluster(object)?,
        ("Machine", _) => of_machine(object)?,
        ("VSphereVM", _) => of_vm(object)?,
        _ => return None,
    };
    Some(format!("{node} {text}"))
}

fn of_cluster(object: &DynamicObject) -> Option<&'static str> {
    let (spec, status) = (&object.data["spec"], &object.data["status"]);
    let done = &status["initialization"];
    // The second is what contract v1beta1 has.
    let infrastructure = [
        &done["infrastructureProvisioned"],
        &status["infrastructureReady"],
    ];
    if !infrastructure.contains(&&Value::Bool(true)) {
        return Some("has no infrastructure yet");
    }
    let initialized =
        done["controlPlaneInitialized"] == true || is_true(object, "ControlPlaneInitialized");
    if !initialized {
        return Some("has no control plane yet");
    }
    let elsewhere = spec["topology"]["classRef"]["namespace"].as_str();
    let home = object.metadata.namespace.as_deref();
    if elsewhere.is_some() && elsewhere != home {
        return Some("is of a class in another namespace");
    }
    None
}

fn of_machine(object: &DynamicObject) -> Option<&'static str> {
    object.data["status"]["nodeRef"]
        .is_null()
        .then_some("is no node yet")
}

/// Until it is noted which virtual machine it is, it is found by the UID of its object, and
/// that is another one at the target.
fn of_vm(object: &DynamicObject) -> Option<&'static str> {
    let uuid = object.data["spec"]["biosUUID"].as_str();
    uuid.unwrap_or_default()
        .is_empty()
        .then_some("has no virtual machine yet")
}

/// Whether a condition is true.
fn is_true(object: &DynamicObject, kind: &str) -> bool {
    condition(object, kind) == Some("True")
}

/// The status of a condition, if the object has it.
pub fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a str> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == kind)?;
    found["status"].as_str()
}
