//! An ordered set with snapshots: a B+ tree with shared nodes and counts.
//!
//! A clone is a snapshot. It costs one pointer, and shares all nodes; a later change copies the
//! nodes on its path, and only those that a snapshot shares. Each node knows the weight below
//! it, so that the items of a range are counted without a visit to each.

mod sorted;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::fmt::Debug;
use std::sync::Arc;

/// An item of a [`Tree`].
pub trait Item: Clone {
    /// What items are ordered by.
    type Key: Ord + ?Sized;
    /// A key that outlives its item: nodes are found by it.
    type OwnedKey: Clone + Debug + Borrow<Self::Key>;

    /// The key.
    fn key(&self) -> &Self::Key;

    /// A copy of the key.
    fn owned_key(&self) -> Self::OwnedKey;

    /// How much the item counts.
    fn weight(&self) -> usize {
        1
    }
}

/// An ordered set of items with distinct keys.
#[derive(Clone, Debug)]
pub struct Tree<T: Item> {
    root: Option<Arc<Node<T>>>,
    weight: usize,
}

#[derive(Clone, Debug)]
enum Node<T: Item> {
    Leaf(Vec<T>),
    Branch(Vec<Child<T>>),
}

#[derive(Clone, Debug)]
struct Child<T: Item> {
    /// Not larger than any key below the child, and larger than any key before it.
    first: T::OwnedKey,
    weight: usize,
    node: Arc<Node<T>>,
}

/// The most items of a leaf.
const MAX_ITEMS: usize = 64;

/// The most children of a branch.
const MAX_CHILDREN: usize = 32;

impl<T: Item> Default for Tree<T> {
    fn default() -> Self {
        Self {
            root: None,
            weight: 0,
        }
    }
}

impl<T: Item> Tree<T> {
    /// The sum of all items' weights.
    pub const fn weight(&self) -> usize {
        self.weight
    }

    /// Whether there are no items.
    pub const fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Returns the item with this key.
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Branch(children) => node = &children[child_of(children, key)].node,
                Node::Leaf(items) => {
                    let found = items.binary_search_by(|item| item.key().cmp(key)).ok()?;
                    return items.get(found);
                }
            }
        }
    }

    /// Adds an item. Returns the one with the same key that it replaces.
    pub fn insert(&mut self, item: T) -> Option<T> {
        self.weight += item.weight();
        let Some(root) = &mut self.root else {
            self.root = Some(Arc::new(Node::Leaf(vec![item])));
            return None;
        };
        let Inserted { replaced, split } = Node::insert(Arc::make_mut(root), item);
        if let Some(right) = split {
            let left = Child::new(Arc::clone(root));
            // The tree is not empty, so its root has a first key.
            let children = left.into_iter().chain([right]).collect();
            self.root = Some(Arc::new(Node::Branch(children)));
        }
        self.weight -= replaced.as_ref().map_or(0, Item::weight);
        replaced
    }

    /// Removes and returns the item with this key.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        // Nothing is copied for a key that does not exist.
        self.get(key)?;
        let root = self.root.as_mut()?;
        let removed = Node::remove(Arc::make_mut(root), key)?;
        self.weight -= removed.weight();
        loop {
            let only = match self.root.as_deref() {
                Some(Node::Branch(children)) if children.len() == 1 => {
                    Arc::clone(&children[0].node)
                }
                Some(node) if node.len() == 0 => {
                    self.root = None;
                    break;
                }
                _ => break,
            };
            self.root = Some(only);
        }
        Some(removed)
    }

    /// Returns the weight of the items before a position. `is_before` says of a key whether it
    /// is before it.
    pub fn weight_before(&self, is_before: impl Fn(&T::Key) -> bool) -> usize {
        let mut weight = 0;
        let mut node = match self.root.as_deref() {
            Some(root) => root,
            None => return 0,
        };
        loop {
            match node {
                Node::Branch(children) => {
                    let at = last_before(children, &is_before);
                    weight += children[..at]
                        .iter()
                        .map(|child| child.weight)
                        .sum::<usize>();
                    node = &children[at].node;
                }
                Node::Leaf(items) => {
                    let end = items.partition_point(|item| is_before(item.key()));
                    return weight + items[..end].iter().map(Item::weight).sum::<usize>();
                }
            }
        }
    }

    /// Returns the items from a position on, in order. `is_before` says of a key whether it is
    /// before the position.
    pub fn iter_from(&self, is_before: impl Fn(&T::Key) -> bool) -> Iter<'_, T> {
        let mut iter = Iter::empty();
        let mut next = self.root.as_deref();
        while let Some(node) = next.take() {
            match node {
                Node::Branch(children) => {
                    let at = last_before(children, &is_before);
                    iter.rest.push(children[at + 1..].iter());
                    next = Some(&children[at].node);
                }
                Node::Leaf(items) => {
                    let start = items.partition_point(|item| is_before(item.key()));
                    iter.items = items[start..].iter();
                }
            }
        }
        iter
    }

    /// Returns all items in order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.iter_from(|_| false)
    }
}

impl<'a, T: Item> IntoIterator for &'a Tree<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The items of a tree from a position on.
#[derive(Debug)]
pub struct Iter<'a, T: Item> {
    /// The children that follow, of each branch from the root down.
    rest: Vec<std::slice::Iter<'a, Child<T>>>,
    items: std::slice::Iter<'a, T>,
}

impl<T: Item> Iter<'_, T> {
    /// No items.
    pub fn empty() -> Self {
        Self {
            rest: Vec::new(),
            items: [].iter(),
        }
    }
}

impl<'a, T: Item> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            let next = self.rest.last_mut()?.next();
            match next.map(|child| &*child.node) {
                Some(Node::Leaf(items)) => self.items = items.iter(),
                Some(Node::Branch(children)) => self.rest.push(children.iter()),
                None => {
                    self.rest.pop();
                }
            }
        }
    }
}

/// The result of an insertion into a node.
struct Inserted<T: Item> {
    replaced: Option<T>,
    /// The right half of the node, if it had to be split.
    split: Option<Child<T>>,
}

impl<T: Item> Node<T> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Branch(children) => children.len(),
        }
    }

    /// Whether the node may be merged with a neighbour of `other` entries. Well below the
    /// maximum, so that the next insertion does not split it again.
    fn fits(&self, other: usize) -> bool {
        let max = match self {
            Self::Leaf(_) => MAX_ITEMS,
            Self::Branch(_) => MAX_CHILDREN,
        };
        self.len() + other <= max * 3 / 4
    }

    fn insert(&mut self, item: T) -> Inserted<T> {
        match self {
            Self::Leaf(items) => insert_into_leaf(items, item),
            Self::Branch(children) => {
                let at = child_of(children, item.key());
                let child = &mut children[at];
                child.weight += item.weight();
                let Inserted { replaced, split } = Arc::make_mut(&mut child.node).insert(item);
                child.weight -= replaced.as_ref().map_or(0, T::weight);
                let Some(right) = split else {
                    return Inserted {
                        replaced,
                        split: None,
                    };
                };
                child.weight -= right.weight;
                let is_last = at + 1 == children.len();
                children.insert(at + 1, right);
                let split = (children.len() > MAX_CHILDREN).then(|| {
                    // Items that arrive in order, as at the start, leave full nodes behind.
                    let half = match is_last {
                        true => MAX_CHILDREN,
                        false => children.len() / 2,
                    };
                    children.split_off(half)
                });
                Inserted {
                    replaced,
                    split: split.and_then(|right| Child::new(Arc::new(Self::Branch(right)))),
                }
            }
        }
    }

    fn remove(&mut self, key: &T::Key) -> Option<T> {
        match self {
            Self::Leaf(items) => {
                let found = items.binary_search_by(|item| item.key().cmp(key)).ok()?;
                Some(items.remove(found))
            }
            Self::Branch(children) => {
                let at = child_of(children, key);
                let child = &mut children[at];
                let removed = Arc::make_mut(&mut child.node).remove(key)?;
                child.weight -= removed.weight();
                merge_neighbours(children, at);
                Some(removed)
            }
        }
    }

    /// Appends the entries of the node that follows; `first` is the lower bound of its keys.
    fn append(&mut self, next: Arc<Self>, first: T::OwnedKey) {
        match (self, Arc::unwrap_or_clone(next)) {
            (Self::Leaf(items), Self::Leaf(more)) => items.extend(more),
            (Self::Branch(children), Self::Branch(mut more)) => {
                // Of a node's first child the bound is never read, so it may be stale.
                if let Some(child) = more.first_mut() {
                    child.first = first;
                }
                children.extend(more);
            }
            // All leaves are at the same depth.
            _ => unreachable!("neighbours are nodes of one kind"),
        }
    }
}

impl<T: Item> Child<T> {
    /// Returns the node as a child, unless it is empty.
    fn new(node: Arc<Node<T>>) -> Option<Self> {
        let (first, weight) = match &*node {
            Node::Leaf(items) => (
                items.first()?.owned_key(),
                items.iter().map(Item::weight).sum(),
            ),
            Node::Branch(children) => (
                children.first()?.first.clone(),
                children.iter().map(|child| child.weight).sum(),
            ),
        };
        Some(Self {
            first,
            weight,
            node,
        })
    }
}

fn insert_into_leaf<T: Item>(items: &mut Vec<T>, item: T) -> Inserted<T> {
    let done = |replaced, split| Inserted { replaced, split };
    match items.binary_search_by(|other| other.key().cmp(item.key())) {
        Ok(at) => done(Some(std::mem::replace(&mut items[at], item)), None),
        Err(at) if items.len() < MAX_ITEMS => {
            items.insert(at, item);
            done(None, None)
        }
        Err(at) => {
            // Split before the insertion, which would otherwise double the leaf's capacity.
            let half = match at == items.len() {
                true => at,
                false => items.len() / 2,
            };
            let mut right = items.split_off(half);
            match at < half {
                true => items.insert(at, item),
                false => right.insert(at - half, item),
            }
            done(None, Child::new(Arc::new(Node::Leaf(right))))
        }
    }
}

/// Removes the child if it is empty, or merges it with a neighbour if both fit into one node.
fn merge_neighbours<T: Item>(children: &mut Vec<Child<T>>, at: usize) {
    if children[at].node.len() == 0 {
        children.remove(at);
        return;
    }
    for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
        let Some(right) = children.get(left + 1) else {
            continue;
        };
        if children[left].node.fits(right.node.len()) {
            let right = children.remove(left + 1);
            let left = &mut children[left];
            left.weight += right.weight;
            Arc::make_mut(&mut left.node).append(right.node, right.first);
            return;
        }
    }
}

/// Returns the index of the child that has the key, or would have it.
fn child_of<T: Item>(children: &[Child<T>], key: &T::Key) -> usize {
    last_before(children, |first| first <= key)
}

/// Returns the index of the child in which the position is.
fn last_before<T: Item>(children: &[Child<T>], is_before: impl Fn(&T::Key) -> bool) -> usize {
    let after = children.partition_point(|child| is_before(child.first.borrow()));
    after.saturating_sub(1)
}
