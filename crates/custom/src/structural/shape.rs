//! The representation of JSON values in CEL, derived from their schema.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use insula_cel::{Listing, Property, Shape, identifier};

use super::node::{Additional, ListKind, Node, NodeId, Type};

/// The shapes of nodes, each computed once.
#[derive(Default)]
pub(super) struct Shapes {
    known: HashMap<usize, Option<Shape>>,
}

impl Shapes {
    /// The shape of a node in the list; `None` if CEL cannot represent it.
    fn get(&mut self, nodes: &[Node], id: NodeId) -> Option<Shape> {
        if let Some(known) = self.known.get(&id.index()) {
            return known.clone();
        }
        let node = &nodes[id.index()];
        let shape = self.of(nodes, node, node.embedded);
        self.known.insert(id.index(), shape.clone());
        shape
    }

    /// The shape of a node with children in the list. A resource always has apiVersion, kind
    /// and metadata, even if its schema omits them.
    pub(super) fn of(&mut self, nodes: &[Node], node: &Node, resource: bool) -> Option<Shape> {
        let shape = if node.int_or_string {
            Shape::IntOrString
        } else {
            match node.kind? {
                Type::Array => self.list(nodes, node)?,
                Type::Boolean => Shape::Bool,
                Type::Integer => Shape::Int,
                Type::Number => Shape::Double,
                Type::Object => self.object(nodes, node, resource)?,
                Type::String => text(node),
            }
        };
        Some(match node.nullable {
            true => Shape::Nullable(Arc::new(shape)),
            false => shape,
        })
    }

    fn list(&mut self, nodes: &[Node], node: &Node) -> Option<Shape> {
        let items = self.get(nodes, node.items?)?;
        let listing = match node.list {
            ListKind::Atomic => Listing::Atomic(items),
            ListKind::Set => Listing::Set(items),
            ListKind::Map => {
                let keys = node.keys.iter().map(ToString::to_string);
                Listing::Keyed(items, keys.collect())
            }
        };
        Some(Shape::List(Arc::new(listing)))
    }

    fn object(&mut self, nodes: &[Node], node: &Node, resource: bool) -> Option<Shape> {
        if let Additional::Each(id) = node.additional {
            return Some(Shape::Map(Arc::new(self.get(nodes, id)?)));
        }
        let mut fields = BTreeMap::new();
        for (name, id) in &node.properties {
            let Some(shape) = self.get(nodes, *id) else {
                continue;
            };
            if let Some(escaped) = identifier::escape(name) {
                let name = name.to_string();
                fields.insert(escaped, Property { name, shape });
            }
        }
        if resource && !has_meta(nodes, node) {
            fields.extend(meta());
        }
        Some(Shape::Object(Arc::new(fields)))
    }
}

fn text(node: &Node) -> Shape {
    let format = node.checks.as_deref().and_then(|it| it.format.as_ref());
    match format.map_or("", |format| format.name()) {
        "byte" => Shape::Bytes,
        "date" => Shape::Date,
        "date-time" => Shape::DateTime,
        "duration" => Shape::Duration,
        _ => Shape::String,
    }
}

/// Reports whether the schema itself specifies apiVersion, kind and metadata.
fn has_meta(nodes: &[Node], node: &Node) -> bool {
    let is = |node: &Node, name: &str, kind: Type| {
        let id = node.property(name)?;
        let node = &nodes[id.index()];
        (node.kind == Some(kind)).then_some(node)
    };
    let texts = |node: &Node, names: [&str; 2]| {
        let mut names = names.iter();
        names.all(|name| is(node, name, Type::String).is_some())
    };
    texts(node, ["apiVersion", "kind"])
        && is(node, "metadata", Type::Object)
            .is_some_and(|meta| texts(meta, ["name", "generateName"]))
}

/// The fields of every resource that CEL can access.
fn meta() -> impl Iterator<Item = (String, Property)> {
    let text = |name: &str| (name.to_owned(), property(name, Shape::String));
    let names = BTreeMap::from([text("name"), text("generateName")]);
    let metadata = property("metadata", Shape::Object(Arc::new(names)));
    let metadata = ("metadata".to_owned(), metadata);
    [text("apiVersion"), text("kind"), metadata].into_iter()
}

fn property(name: &str, shape: Shape) -> Property {
    let name = name.to_owned();
    Property { name, shape }
}
