//! Whether the defaults in a schema have unspecified fields, which pruning removes.

use insula_kinds::Value;

use super::props::{Props, SchemaOrBool};
use crate::prune;
use crate::structural::{Additional, NodeId, Schema};

/// Reports whether any default of a structural schema has unspecified fields.
pub(super) fn has_unpruned(schema: Props<'_>) -> bool {
    let defaults = schema.any(|schema| schema.has("default"));
    let compiled = Schema::compile(schema.value()).ok().filter(|_| defaults);
    compiled.is_some_and(|compiled| unpruned_below(schema, &compiled, NodeId::ROOT))
}

fn unpruned_below(schema: Props<'_>, compiled: &Schema, id: NodeId) -> bool {
    let default = schema.get("default");
    if default.is_some_and(|default| !is_pruned(compiled, id, default)) {
        return true;
    }
    let node = compiled.node(id);
    let values = match (
        schema.schema_or_bool("additionalProperties"),
        node.additional,
    ) {
        (SchemaOrBool::Schema(values), Additional::Each(id)) => Some((values, id)),
        _ => None,
    };
    let items = schema.item().zip(node.items);
    let properties = schema.entries("properties");
    let properties = properties.filter_map(|(name, below)| Some((below, node.property(name)?)));
    let mut below = items.into_iter().chain(values).chain(properties);
    below.any(|(below, id)| unpruned_below(below, compiled, id))
}

/// Reports whether a default has no unspecified fields.
pub(super) fn is_pruned(schema: &Schema, id: NodeId, default: &Value) -> bool {
    let mut value = default.clone();
    match &mut value {
        Value::Object(object) if id == NodeId::ROOT => schema.prune(object, &mut Vec::new()),
        other => prune::value(schema, id, other),
    }
    &value == default
}
