//! Checks that need no I/O: whether clusters can be moved.

use insula_capi::kinds::ClusterStatus;
use insula_capi::relocation::MoveRules;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, from_value};

use crate::names::{CAPI, DELETED_FOR_MOVE, MARK, PAUSED};
use crate::plan::Node;

/// Where a cluster or class is in the course of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is not paused.
    Active,
    /// This move has paused it.
    Moving,
    /// It is paused, but not by a move.
    Paused,
    /// A move to another target has paused it.
    MovingElsewhere,
}

/// Returns the stage of a cluster or class. The mark names the source and target of this move.
pub fn stage(node: &Node, object: &DynamicObject, mark: &str) -> Stage {
    let marked = object.annotations().get(MARK);
    let paused = match node.is_class() {
        true => object.annotations().contains_key(PAUSED),
        false => object.data["spec"]["paused"] == Value::Bool(true),
    };
    match (paused, marked) {
        (true, Some(marked)) if marked == mark => Stage::Moving,
        (true, Some(_)) => Stage::MovingElsewhere,
        (true, None) => Stage::Paused,
        (false, _) => Stage::Active,
    }
}

/// The checks of one move.
#[derive(Clone, Copy, Debug)]
pub struct Checks<'a> {
    /// The mark of the move, which names its source and target.
    pub mark: &'a str,
    /// The rules of all providers.
    pub providers: &'a [&'a dyn MoveRules],
}

impl Checks<'_> {
    /// Returns why an object cannot be copied after everything was paused, if there is a reason: it
    /// may have changed before the pause took effect, or a user may have ended the pause.
    pub fn copy_obstacle(&self, node: &Node, object: &DynamicObject) -> Option<String> {
        let pausable = node.is_cluster() || node.is_class();
        if pausable && stage(node, object, self.mark) == Stage::Active {
            return Some(format!("{node} is not paused"));
        }
        if self.hold(node, object).is_some() {
            return Some(format!("{node} is not paused"));
        }
        self.move_obstacle(node, object)
    }

    /// Returns the patch that pauses an object that no cluster pauses, if it is needed.
    pub fn hold(&self, node: &Node, object: &DynamicObject) -> Option<Value> {
        let movable = node.movable(object);
        let mut providers = self.providers.iter();
        providers.find_map(|rules| rules.hold(movable, self.mark))
    }

    /// Returns the patch that ends such a pause, if this move has set it.
    pub fn resume(&self, node: &Node, object: &DynamicObject) -> Option<Value> {
        let movable = node.movable(object);
        let mut providers = self.providers.iter();
        providers.find_map(|rules| rules.resume(movable, self.mark))
    }

    /// Returns why an object cannot be moved, if there is a reason.
    pub fn move_obstacle(&self, node: &Node, object: &DynamicObject) -> Option<String> {
        if object.metadata.deletion_timestamp.is_some()
            && !object.annotations().contains_key(DELETED_FOR_MOVE)
        {
            return Some(format!("{node} is being deleted"));
        }
        if node.is_cluster() || node.is_class() {
            match stage(node, object, self.mark) {
                Stage::Active => {}
                // It was checked when it was paused.
                Stage::Moving => return None,
                Stage::Paused => return Some(format!("{node} is paused")),
                Stage::MovingElsewhere => {
                    return Some(format!("{node} is being moved somewhere else"));
                }
            }
        }
        let text = match (node.group.as_str(), node.kind.as_str()) {
            (CAPI, "Cluster") => cluster_obstacle(object),
            (CAPI, "Machine") => machine_obstacle(object),
            _ => self.provider_obstacle(node, object),
        };
        text.map(|text| format!("{node} {text}"))
    }

    fn provider_obstacle(&self, node: &Node, object: &DynamicObject) -> Option<&'static str> {
        let movable = node.movable(object);
        let mut providers = self.providers.iter();
        providers.find_map(|rules| rules.obstacle(movable))
    }
}

fn cluster_obstacle(object: &DynamicObject) -> Option<&'static str> {
    let status: ClusterStatus = from_value(object.data["status"].clone()).unwrap_or_default();
    let done = status.initialization.unwrap_or_default();
    if done.infrastructure_provisioned != Some(true) {
        return Some("has no infrastructure yet");
    }
    if done.control_plane_initialized != Some(true) {
        return Some("has no control plane yet");
    }
    let elsewhere = object.data["spec"]["topology"]["classRef"]["namespace"].as_str();
    let home = object.metadata.namespace.as_deref();
    if elsewhere.is_some() && elsewhere != home {
        return Some("uses a class of another namespace");
    }
    None
}

fn machine_obstacle(object: &DynamicObject) -> Option<&'static str> {
    object.data["status"]["nodeRef"]
        .is_null()
        .then_some("has no node yet")
}

/// Returns the status of a condition, if the object has it.
pub fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a str> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == kind)?;
    found["status"].as_str()
}
