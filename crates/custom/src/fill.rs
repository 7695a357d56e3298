//! Filling in of defaults.

use insula_kinds::Object;
use serde_json::Value;

use crate::structural::{Additional, Node, Schema, value_size};

/// Maximum number of bytes filled into one object. Lists multiply the defaults of their items.
/// An object of about this size is too large to be stored anyway.
const MAX_FILLED: usize = 8 << 20;

/// The size of a field besides its name and value.
const MEMBER: usize = 40;

impl Schema {
    /// Removes nulls where a value is not nullable, and fills in defaults. Nulls in lists are
    /// kept unless the items have a default.
    pub fn fill(&self, object: &mut Object) {
        self.drop_nulls(object);
        self.fill_defaults(object);
    }

    /// Fills in defaults, and keeps nulls that have none for the validation.
    pub fn fill_defaults(&self, object: &mut Object) {
        let mut filler = Filler {
            schema: self,
            room: MAX_FILLED,
        };
        filler.members(object, self.root());
    }

    /// Removes nulls where a value is not nullable and has no default.
    pub fn drop_nulls(&self, object: &mut Object) {
        drop_nulls_of(self, self.root(), object);
    }
}

/// Removes nulls inside a value that are not nullable and have no default.
pub(crate) fn drop_nulls(schema: &Schema, node: &Node, value: &mut Value) {
    match value {
        Value::Object(members) => drop_nulls_of(schema, node, members),
        Value::Array(items) => {
            if let Some(id) = node.items {
                let node = schema.node(id);
                items
                    .iter_mut()
                    .for_each(|item| drop_nulls(schema, node, item));
            }
        }
        _ => {}
    }
}

fn drop_nulls_of(schema: &Schema, node: &Node, members: &mut Object) {
    members.retain(|name, value| {
        let Some(id) = node.member(name) else {
            return true;
        };
        let node = schema.node(id);
        if value.is_null() {
            return node.nullable || node.default.is_some();
        }
        drop_nulls(schema, node, value);
        true
    });
}

struct Filler<'a> {
    schema: &'a Schema,
    /// The number of bytes that may still be filled in.
    room: usize,
}

impl Filler<'_> {
    fn members(&mut self, members: &mut Object, node: &Node) {
        for (name, id) in &node.properties {
            let property = self.schema.node(*id);
            let Some(default) = &property.default else {
                continue;
            };
            let missing = match members.get(&**name) {
                None => true,
                Some(value) => value.is_null() && !property.nullable,
            };
            if missing && self.take(default, MEMBER + name.len()) {
                members.insert(name.to_string(), (**default).clone());
            }
        }
        for (name, value) in members.iter_mut() {
            if let Some(id) = node.property(name) {
                self.value(value, self.schema.node(id));
            } else if let Additional::Each(id) = node.additional {
                let each = self.schema.node(id);
                self.replace(value, each);
                self.value(value, each);
            }
        }
    }

    fn value(&mut self, value: &mut Value, node: &Node) {
        match value {
            Value::Object(members) => self.members(members, node),
            Value::Array(items) => {
                let Some(id) = node.items else { return };
                let each = self.schema.node(id);
                for item in items {
                    self.replace(item, each);
                    self.value(item, each);
                }
            }
            _ => {}
        }
    }

    /// Replaces a null that is not nullable by the default.
    fn replace(&mut self, value: &mut Value, node: &Node) {
        if let Some(default) = &node.default
            && value.is_null()
            && !node.nullable
            && self.take(default, 0)
        {
            *value = (**default).clone();
        }
    }

    fn take(&mut self, default: &Value, beside: usize) -> bool {
        let left = self.room.checked_sub(beside + value_size(default));
        self.room = left.unwrap_or(0);
        left.is_some()
    }
}
