//! Compilation of a schema's JSON to nodes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::node::{Additional, Checks, Junctors, ListKind, Node, NodeId, Type};
use super::rules::{self, Rules};
use super::shape::Shapes;
use super::{CompileError, MAX_DEPTH, MAX_NODES, Schema};
use crate::format::Format;
use crate::pattern::Pattern;
use crate::prune;

/// Compiles a schema.
pub(super) fn schema(json: &Value) -> Result<Schema, CompileError> {
    let mut compiler = Compiler::default();
    compiler.node(json, Place::root())?;
    let unpruned = std::mem::take(&mut compiler.unpruned);
    let rules = compiler
        .nodes
        .iter()
        .filter_map(|node| node.rules.as_deref());
    let mut schema = Schema {
        max_rule_depth: rules.map(Rules::max_rule_depth).max().unwrap_or(0),
        ruled: compiler.nodes[0].ruled,
        nodes: compiler.nodes.into_boxed_slice(),
    };
    for id in unpruned {
        let Some(mut default) = schema.nodes[id.index()].default.take() else {
            continue;
        };
        prune::value(&schema, id, &mut default);
        schema.nodes[id.index()].default = Some(default);
    }
    Ok(schema)
}

/// The keywords that constrain a value.
const CHECKS: [&str; 15] = [
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
];

/// Limit on the total weight of patterns that are kept compiled, which is some megabytes. The
/// largest schemas in use reach a tenth of it.
const MAX_WEIGHT: u64 = 500_000;

/// The nodes compiled so far, and the parts they share.
#[derive(Default)]
struct Compiler {
    nodes: Vec<Node>,
    names: HashSet<Arc<str>>,
    patterns: HashMap<Box<str>, Arc<Pattern>>,
    checks: HashMap<String, Arc<Checks>>,
    /// The total weight of the kept patterns.
    weight: u64,
    shapes: Shapes,
    /// Nodes with defaults that still have to be pruned.
    unpruned: Vec<NodeId>,
}

/// The position of a node in the schema.
#[derive(Clone, Copy)]
struct Place<'a> {
    depth: usize,
    name: &'a str,
    /// Whether it is apiVersion, kind or metadata of a resource, which are not pruned.
    meta: bool,
    /// Whether it is inside `allOf`, `anyOf`, `oneOf` or `not`, where rules have no effect.
    junctor: bool,
}

impl Place<'_> {
    fn root() -> Self {
        Self {
            depth: 0,
            name: "the root",
            meta: false,
            junctor: false,
        }
    }

    fn child<'b>(&self, name: &'b str) -> Place<'b> {
        Place {
            depth: self.depth + 1,
            name,
            meta: false,
            junctor: self.junctor,
        }
    }
}

impl Compiler {
    fn node(&mut self, json: &Value, place: Place<'_>) -> Result<NodeId, CompileError> {
        let whole = json;
        let Value::Object(json) = json else {
            return Err(CompileError::NotAnObject(place.name.to_owned()));
        };
        if place.depth > MAX_DEPTH {
            return Err(CompileError::TooDeep);
        }
        let id = NodeId::at(self.nodes.len()).filter(|id| id.index() < MAX_NODES);
        let id = id.ok_or(CompileError::TooLarge)?;
        self.nodes.push(Node::default());
        let mut node = self.generic(json);
        self.structure(json, place, &mut node)?;
        node.checks = self.checks(json, &node);
        node.junctors = self.junctors(json, place)?.map(Box::new);
        node.embeds = node.embedded || self.below(&node).any(|node| node.embeds);
        let unique = node.list != ListKind::Atomic;
        node.unique = unique || self.below(&node).any(|node| node.unique);
        if !place.junctor {
            self.rules(whole, &mut node, place);
        }
        if node.default.is_some() && !place.meta {
            self.unpruned.push(id);
        }
        self.nodes[id.index()] = node;
        Ok(id)
    }

    /// Compiles the rules of a node. If its values cannot be represented in CEL, neither its own
    /// rules nor those below have any effect.
    fn rules(&mut self, json: &Value, node: &mut Node, place: Place<'_>) {
        let own = !rules::listed(json).is_empty();
        if !own && !self.below(node).any(|node| node.ruled) {
            return;
        }
        let resource = node.embedded || place.depth == 0;
        let Some(shape) = self.shapes.of(&self.nodes, node, resource) else {
            return;
        };
        node.ruled = true;
        if own {
            let rules = Rules::of(json, node, &self.nodes, shape, resource);
            node.rules = rules.map(Box::new);
        }
    }

    /// The nodes of all values inside a value.
    fn below<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> {
        let additional = match node.additional {
            Additional::Each(id) => Some(id),
            _ => None,
        };
        let properties = node.properties.iter().map(|(_, id)| *id);
        let ids = properties.chain(additional).chain(node.items);
        ids.map(|id| &self.nodes[id.index()])
    }

    fn generic(&mut self, json: &Map<String, Value>) -> Node {
        let list = match text(json, "x-kubernetes-list-type") {
            "set" => ListKind::Set,
            "map" => ListKind::Map,
            _ => ListKind::Atomic,
        };
        Node {
            kind: Type::of(text(json, "type")),
            nullable: flag(json, "nullable"),
            preserve: flag(json, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(json, "x-kubernetes-embedded-resource"),
            int_or_string: flag(json, "x-kubernetes-int-or-string"),
            list,
            keys: self.names(json, "x-kubernetes-list-map-keys"),
            default: json
                .get("default")
                .filter(|default| !default.is_null())
                .map(|default| Box::new(default.clone())),
            ..Node::default()
        }
    }

    fn structure(
        &mut self,
        json: &Map<String, Value>,
        place: Place<'_>,
        node: &mut Node,
    ) -> Result<(), CompileError> {
        if let Some(Value::Object(properties)) = json.get("properties") {
            let mut known = Vec::with_capacity(properties.len());
            for (name, property) in properties {
                let mut child = place.child(name);
                child.meta = prune::is_meta(name) && (node.embedded || place.depth == 0);
                let id = self.node(property, child)?;
                known.push((self.name(name), id));
            }
            known.sort_by(|(one, _), (other, _)| one.cmp(other));
            node.properties = known.into_boxed_slice();
        }
        node.additional = match json.get("additionalProperties") {
            Some(Value::Bool(true)) => Additional::Allowed,
            Some(Value::Bool(false)) => Additional::Forbidden,
            Some(each @ Value::Object(_)) => {
                Additional::Each(self.node(each, place.child("additionalProperties"))?)
            }
            _ => Additional::Unset,
        };
        if let Some(items @ Value::Object(_)) = json.get("items") {
            node.items = Some(self.node(items, place.child("items"))?);
        }
        Ok(())
    }

    /// The constraints of a node, shared by all nodes with the same ones.
    fn checks(&mut self, json: &Map<String, Value>, node: &Node) -> Option<Arc<Checks>> {
        let kind = node.kind.filter(|_| !node.int_or_string);
        let mut identity = String::new();
        for name in CHECKS {
            if let Some(value) = json.get(name) {
                identity.push_str(&format!("{name}:{value},"));
            }
        }
        if identity.is_empty() {
            return None;
        }
        identity.push_str(kind.map_or("", Type::name));
        if let Some(known) = self.checks.get(&identity) {
            return Some(Arc::clone(known));
        }
        let format = Format::of(kind.map(Type::name), text(json, "format"));
        let checks = Arc::new(Checks {
            format,
            maximum: number(json, "maximum"),
            exclusive_maximum: flag(json, "exclusiveMaximum"),
            minimum: number(json, "minimum"),
            exclusive_minimum: flag(json, "exclusiveMinimum"),
            multiple_of: number(json, "multipleOf"),
            max_length: count(json, "maxLength"),
            min_length: count(json, "minLength"),
            pattern: self.pattern(text(json, "pattern")),
            max_items: count(json, "maxItems"),
            min_items: count(json, "minItems"),
            max_properties: count(json, "maxProperties"),
            min_properties: count(json, "minProperties"),
            allowed: list(json, "enum").into(),
            required: self.names(json, "required"),
        });
        self.checks.insert(identity, Arc::clone(&checks));
        Some(checks)
    }

    fn junctors(
        &mut self,
        json: &Map<String, Value>,
        place: Place<'_>,
    ) -> Result<Option<Junctors>, CompileError> {
        let beside = |name| Place {
            junctor: true,
            ..place.child(name)
        };
        let mut branches = |name: &'static str| {
            let branches = list(json, name).iter();
            let ids: Result<Vec<_>, _> = branches
                .map(|branch| self.node(branch, beside(name)))
                .collect();
            ids.map(Vec::into_boxed_slice)
        };
        let (all, any, one) = (branches("allOf")?, branches("anyOf")?, branches("oneOf")?);
        let not = match json.get("not") {
            Some(not @ Value::Object(_)) => Some(self.node(not, beside("not"))?),
            _ => None,
        };
        let none = all.is_empty() && any.is_empty() && one.is_empty() && not.is_none();
        Ok((!none).then_some(Junctors { all, any, one, not }))
    }

    fn pattern(&mut self, text: &str) -> Option<Arc<Pattern>> {
        if text.is_empty() {
            return None;
        }
        if let Some(known) = self.patterns.get(text) {
            return Some(Arc::clone(known));
        }
        let mut pattern = Pattern::uncached(text);
        let weight = self.weight.saturating_add(pattern.weight());
        if weight <= MAX_WEIGHT {
            self.weight = weight;
            pattern = Pattern::new(text);
        }
        let pattern = Arc::new(pattern);
        self.patterns.insert(text.into(), Arc::clone(&pattern));
        Some(pattern)
    }

    fn names(&mut self, json: &Map<String, Value>, field: &str) -> Box<[Arc<str>]> {
        let names = list(json, field).iter().filter_map(Value::as_str);
        names.map(|name| self.name(name)).collect()
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }
}

fn text<'a>(json: &'a Map<String, Value>, field: &str) -> &'a str {
    json.get(field).and_then(Value::as_str).unwrap_or("")
}

fn flag(json: &Map<String, Value>, field: &str) -> bool {
    json.get(field).and_then(Value::as_bool).unwrap_or(false)
}

fn number(json: &Map<String, Value>, field: &str) -> Option<f64> {
    json.get(field).and_then(Value::as_f64)
}

fn count(json: &Map<String, Value>, field: &str) -> Option<i64> {
    json.get(field).and_then(Value::as_i64)
}

fn list<'a>(json: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    json.get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}
