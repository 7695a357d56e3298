//! Trees of items that are in order already, as a load finds them.

use std::sync::Arc;

use super::{Child, Item, MAX_CHILDREN, MAX_ITEMS, Node, Tree};

impl<T: Item> Tree<T> {
    /// Builds a tree of items with ascending, distinct keys. Each node is allocated once with the
    /// size that it keeps, and each item is moved once.
    pub fn from_sorted(items: impl ExactSizeIterator<Item = T>) -> Self {
        let mut nodes = level(items, MAX_ITEMS, Node::Leaf);
        while nodes.len() > 1 {
            nodes = level(nodes.into_iter(), MAX_CHILDREN, Node::Branch);
        }
        let root = nodes.pop();
        Self {
            weight: root.as_ref().map_or(0, |root| root.weight),
            root: root.map(|root| root.node),
        }
    }
}

/// Divides entries among nodes of at most `max`, in order.
fn level<T: Item, E>(
    mut entries: impl ExactSizeIterator<Item = E>,
    max: usize,
    node: impl Fn(Vec<E>) -> Node<T>,
) -> Vec<Child<T>> {
    let mut nodes = Vec::with_capacity(entries.len().div_ceil(max));
    while entries.len() > 0 {
        let size = entries.len().min(max);
        let mut own = Vec::with_capacity(size);
        own.extend(entries.by_ref().take(size));
        nodes.extend(Child::new(Arc::new(node(own))));
    }
    nodes
}
