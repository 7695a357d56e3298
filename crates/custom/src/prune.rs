//! What a schema does not know is dropped.

use insula_kinds::Object;
use serde_json::Value;

use crate::structural::{Additional, Node, NodeId, Schema};

/// Values below a node that a schema does not know are nested at most as deeply as JSON is
/// read, which this is far beyond.
const MAX_DEPTH: usize = 512;

impl Schema {
    /// Drops the fields that the schema does not know, and names them: `spec.zz`,
    /// `spec.l[0].q`. What is added to `unknown` is sorted. Metadata, apiVersion and kind of
    /// the object itself are left alone.
    pub fn prune(&self, object: &mut Object, unknown: &mut Vec<String>) {
        let mut pruner = Pruner {
            schema: self,
            unknown: Some(Vec::new()),
            path: String::new(),
            depth: 0,
        };
        pruner.members(object, Some(self.root()), true);
        let mut found = pruner.unknown.unwrap_or_default();
        found.sort();
        unknown.append(&mut found);
    }
}

/// Drops what the node does not know of a value, silently.
pub(crate) fn value(schema: &Schema, id: NodeId, value: &mut Value) {
    let mut pruner = Pruner {
        schema,
        unknown: None,
        path: String::new(),
        depth: 0,
    };
    pruner.value(value, Some(id));
}

/// Whether it is a field of all objects.
pub(crate) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

struct Pruner<'a> {
    schema: &'a Schema,
    /// What was dropped, if somebody wants to know.
    unknown: Option<Vec<String>>,
    /// Where we are.
    path: String,
    depth: usize,
}

impl<'a> Pruner<'a> {
    fn value(&mut self, value: &mut Value, id: Option<NodeId>) {
        if self.depth > MAX_DEPTH {
            return;
        }
        self.depth += 1;
        let schema = self.schema;
        let node = id.map(|id| schema.node(id));
        match value {
            Value::Object(members) => self.members(members, node, false),
            Value::Array(items) => self.items(items, node),
            _ => {}
        }
        self.depth -= 1;
    }

    fn members(&mut self, members: &mut Object, node: Option<&'a Node>, root: bool) {
        let Some(node) = node else {
            let names: Vec<_> = members.keys().cloned().collect();
            names.iter().for_each(|name| self.report(name));
            members.clear();
            return;
        };
        let meta = node.embedded || root;
        members.retain(|name, value| {
            if meta && is_meta(name) {
                return true;
            }
            let id = match (node.property(name), node.additional) {
                (Some(id), _) | (None, Additional::Each(id)) => Some(id),
                (None, Additional::Unset) if node.preserve => return true,
                (None, Additional::Unset) => {
                    self.report(name);
                    return false;
                }
                (None, Additional::Allowed | Additional::Forbidden) => None,
            };
            let length = self.enter(name);
            self.value(value, id);
            self.path.truncate(length);
            true
        });
    }

    fn items(&mut self, items: &mut [Value], node: Option<&'a Node>) {
        let id = node.and_then(|node| node.items);
        let preserve = node.is_some_and(|node| node.preserve);
        if preserve && id.is_none() {
            return;
        }
        for (index, item) in items.iter_mut().enumerate() {
            let length = self.path.len();
            if self.unknown.is_some() {
                self.path.push_str(&format!("[{index}]"));
            }
            match id.filter(|_| preserve) {
                Some(id) => self.preserved(item, id),
                None => self.value(item, id),
            }
            self.path.truncate(length);
        }
    }

    /// An item of a list that keeps what is unknown keeps it too, whatever its own schema
    /// says; only what is named in there is judged.
    fn preserved(&mut self, value: &mut Value, id: NodeId) {
        let node = self.schema.node(id);
        match value {
            Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    if node.embedded && is_meta(name) {
                        continue;
                    }
                    let id = match (node.property(name), node.additional) {
                        (Some(id), _) | (None, Additional::Each(id)) => Some(id),
                        (None, Additional::Unset) => continue,
                        (None, Additional::Allowed | Additional::Forbidden) => None,
                    };
                    let length = self.enter(name);
                    self.value(value, id);
                    self.path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(below) = node.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    if self.unknown.is_some() {
                        self.path.push_str(&format!("[{index}]"));
                    }
                    self.preserved(item, below);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Goes to a member; says how long the path was.
    fn enter(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if self.unknown.is_some() {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
        }
        length
    }

    fn report(&mut self, name: &str) {
        let dot = if self.path.is_empty() { "" } else { "." };
        if let Some(unknown) = &mut self.unknown {
            unknown.push(format!("{}{dot}{name}", self.path));
        }
    }
}
