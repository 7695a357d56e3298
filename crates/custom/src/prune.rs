//! Pruning of unspecified fields.

use insula_kinds::Object;
use serde_json::Value;

use crate::structural::{Additional, Node, NodeId, Schema};

/// Maximum nesting of values without a schema node. The JSON decoder's limit is far lower.
const MAX_DEPTH: usize = 512;

impl Schema {
    /// Removes the fields that the schema does not specify, and appends their sorted paths to
    /// `unknown`: `spec.zz`, `spec.l[0].q`. Top-level `metadata`, `apiVersion` and `kind` are
    /// kept.
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

/// Prunes a value without reporting the removed fields.
pub(crate) fn value(schema: &Schema, id: NodeId, value: &mut Value) {
    let mut pruner = Pruner {
        schema,
        unknown: None,
        path: String::new(),
        depth: 0,
    };
    pruner.value(value, Some(id));
}

/// Reports whether it is a field of every object.
pub(crate) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

struct Pruner<'a> {
    schema: &'a Schema,
    /// The paths of removed fields, if they are to be reported.
    unknown: Option<Vec<String>>,
    /// The path of the current value.
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

    /// Prunes an item of a list that preserves unknown fields. The item preserves its own
    /// unknown fields, regardless of its schema; only specified fields are descended into.
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

    /// Appends a field name to the path, and returns the previous length.
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
