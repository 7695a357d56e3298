//! Detects objects that reading would not change.

use insula_kinds::Object;
use serde_json::Value;

use crate::prune::is_meta;
use crate::structural::{Additional, Node, Schema};

impl Schema {
    /// Reports whether [`fill`](Schema::fill) and [`prune`](Schema::prune) would leave the
    /// object unchanged. This holds for most stored objects, which then need no copy.
    pub fn is_normalized(&self, object: &Object) -> bool {
        let root = self.root();
        members(self, root, object, Unknown::of(root), true)
    }
}

/// How fields without a schema are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Dropped,
    Kept,
}

impl Unknown {
    fn of(node: &Node) -> Self {
        if node.preserve {
            Self::Kept
        } else {
            Self::Dropped
        }
    }
}

fn members(schema: &Schema, node: &Node, object: &Object, unknown: Unknown, root: bool) -> bool {
    let complete = node.properties.iter().all(|(name, id)| {
        let property = schema.node(*id);
        property.default.is_none() || object.contains_key(&**name)
    });
    complete
        && object.iter().all(|(name, member)| {
            let meta = is_meta(name) && (root || node.embedded);
            match (node.member(name), node.additional) {
                (Some(id), _) => {
                    let known = schema.node(id);
                    if member.is_null() {
                        return known.nullable;
                    }
                    // Defaults apply to apiVersion, kind and metadata, but pruning does not.
                    if meta {
                        return is_filled(schema, known, member);
                    }
                    value(schema, known, member, Unknown::of(known))
                }
                (None, _) if meta => true,
                (None, Additional::Unset) => unknown == Unknown::Kept,
                (None, _) => is_bare(member),
            }
        })
}

fn value(schema: &Schema, node: &Node, value_: &Value, unknown: Unknown) -> bool {
    match value_ {
        Value::Object(object) => members(schema, node, object, unknown, false),
        Value::Array(items) => match node.items {
            None => unknown == Unknown::Kept || items.iter().all(is_bare),
            Some(id) => {
                let each = schema.node(id);
                // Items of a list that preserves unknown fields preserve them, too.
                let unknown = match unknown {
                    Unknown::Kept => Unknown::Kept,
                    Unknown::Dropped => Unknown::of(each),
                };
                items.iter().all(|item| {
                    let replaced = item.is_null() && !each.nullable && each.default.is_some();
                    !replaced && value(schema, each, item, unknown)
                })
            }
        },
        _ => true,
    }
}

/// Reports whether no default would be filled in, regardless of unknown fields.
fn is_filled(schema: &Schema, node: &Node, value: &Value) -> bool {
    match value {
        Value::Object(object) => {
            let complete = node.properties.iter().all(|(name, id)| {
                schema.node(*id).default.is_none() || object.contains_key(&**name)
            });
            complete
                && object.iter().all(|(name, member)| {
                    node.member(name).is_none_or(|id| {
                        let known = schema.node(id);
                        match member {
                            Value::Null => known.nullable,
                            _ => is_filled(schema, known, member),
                        }
                    })
                })
        }
        Value::Array(items) => node.items.is_none_or(|id| {
            let each = schema.node(id);
            items.iter().all(|item| {
                let replaced = item.is_null() && !each.nullable && each.default.is_some();
                !replaced && is_filled(schema, each, item)
            })
        }),
        _ => true,
    }
}

/// Reports whether it contains no field that could be pruned.
fn is_bare(value: &Value) -> bool {
    match value {
        Value::Object(object) => object.is_empty(),
        Value::Array(items) => items.iter().all(is_bare),
        _ => true,
    }
}
