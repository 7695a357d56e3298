//! Tests of the tree against a `BTreeMap`.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: u32,
    weight: usize,
}

impl Item for Entry {
    type Key = u32;
    type OwnedKey = u32;

    fn key(&self) -> &u32 {
        &self.key
    }

    fn owned_key(&self) -> u32 {
        self.key
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, usize),
    Remove(u32),
    /// Inserts so many ascending keys, as at the start of a server.
    Append(u32),
    /// Removes all keys from one to another.
    Clear(u32, u32),
    Snapshot,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..2_000_u32;
    let step = prop_oneof![
        20 => (key(), 0..5_usize).prop_map(|(key, weight)| Step::Insert(key, weight)),
        20 => key().prop_map(Step::Remove),
        1 => (1..400_u32).prop_map(Step::Append),
        1 => (key(), key()).prop_map(|(from, to)| Step::Clear(from, to)),
        1 => Just(Step::Snapshot),
    ];
    prop::collection::vec(step, 1..400)
}

type Model = BTreeMap<u32, usize>;

fn apply(tree: &mut Tree<Entry>, model: &mut Model, step: &Step) {
    let insert = |tree: &mut Tree<Entry>, model: &mut Model, key, weight| {
        let replaced = tree.insert(Entry { key, weight });
        assert_eq!(
            replaced.map(|entry| entry.weight),
            model.insert(key, weight)
        );
    };
    match *step {
        Step::Insert(key, weight) => insert(tree, model, key, weight),
        Step::Remove(key) => {
            let removed = tree.remove(&key).map(|entry| entry.weight);
            assert_eq!(removed, model.remove(&key));
        }
        Step::Append(count) => {
            let start = model.last_key_value().map_or(0, |(last, _)| last + 1);
            for key in start..start + count {
                insert(tree, model, key, 1);
            }
        }
        Step::Clear(from, to) => {
            for key in from..to {
                assert_eq!(tree.remove(&key).is_some(), model.remove(&key).is_some());
            }
        }
        Step::Snapshot => {}
    }
}

fn check(tree: &Tree<Entry>, model: &Model) {
    let found: Vec<_> = tree.iter().map(|entry| (entry.key, entry.weight)).collect();
    let wanted: Vec<_> = model.iter().map(|(key, weight)| (*key, *weight)).collect();
    assert_eq!(found, wanted);
    assert_eq!(tree.weight(), model.values().sum::<usize>());
    assert_eq!(tree.is_empty(), model.is_empty());
    for key in (0..2_500).step_by(37) {
        assert_eq!(
            tree.get(&key).map(|entry| entry.weight),
            model.get(&key).copied()
        );
        let before: usize = model.range(..key).map(|(_, weight)| weight).sum();
        assert_eq!(tree.weight_before(|other| *other < key), before);
        let rest: Vec<_> = tree
            .iter_from(|other| *other < key)
            .map(|entry| entry.key)
            .collect();
        let wanted: Vec<_> = model.range(key..).map(|(key, _)| *key).collect();
        assert_eq!(rest, wanted);
    }
}

/// Returns the number of leaves and the depth.
fn shape(tree: &Tree<Entry>) -> (usize, usize) {
    fn walk(node: &Node<Entry>) -> (usize, usize) {
        match node {
            Node::Leaf(_) => (1, 1),
            Node::Branch(children) => {
                let below = children.iter().map(|child| walk(&child.node));
                let below: Vec<_> = below.collect();
                assert!(below.iter().all(|(_, depth)| *depth == below[0].1));
                (below.iter().map(|(leaves, _)| leaves).sum(), below[0].1 + 1)
            }
        }
    }
    tree.root.as_deref().map_or((0, 0), walk)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn tree_behaves_like_a_btree_map_and_snapshots_do_not_change(steps in steps()) {
        let (mut tree, mut model) = (Tree::default(), Model::new());
        let mut snapshots = Vec::new();
        for step in &steps {
            apply(&mut tree, &mut model, step);
            if let Step::Snapshot = step {
                snapshots.push((tree.clone(), model.clone()));
            }
        }
        snapshots.push((tree, model));
        for (tree, model) in &snapshots {
            check(tree, model);
            shape(tree);
        }
    }
}

fn ascending(count: u32) -> Tree<Entry> {
    let mut tree = Tree::default();
    for key in 0..count {
        tree.insert(Entry { key, weight: 1 });
    }
    tree
}

#[test]
fn ascending_keys_fill_their_leaves() {
    let (leaves, depth) = shape(&ascending(100_000));
    assert_eq!((leaves, depth), (100_000_usize.div_ceil(MAX_ITEMS), 4));
}

#[test]
fn nodes_are_merged_when_most_items_are_gone() {
    let mut tree = ascending(100_000);
    for key in (0..100_000).filter(|key| key % 100 != 0) {
        tree.remove(&key);
    }
    let (leaves, depth) = shape(&tree);
    assert!(leaves < 80 && depth <= 3, "{leaves} {depth}");
}

#[test]
fn change_beside_a_snapshot_copies_its_path_only() {
    let mut tree = ascending(100_000);
    let snapshot = tree.clone();
    tree.insert(Entry {
        key: 50_000,
        weight: 2,
    });
    fn shared(one: &Node<Entry>, other: &Node<Entry>) -> (usize, usize) {
        let (Node::Branch(ones), Node::Branch(others)) = (one, other) else {
            return (0, 0);
        };
        let mut count = (0, 0);
        for (one, other) in ones.iter().zip(others) {
            match Arc::ptr_eq(&one.node, &other.node) {
                true => count.0 += 1,
                false => {
                    let below = shared(&one.node, &other.node);
                    count = (count.0 + below.0, count.1 + 1 + below.1);
                }
            }
        }
        count
    }
    let (one, other) = (tree.root.unwrap(), snapshot.root.unwrap());
    let (kept, copied) = shared(&one, &other);
    assert_eq!(copied, 3, "one node on each level below the root");
    assert!(kept > 60, "{kept}");
}

proptest! {
    #[test]
    fn sorted_items_make_the_tree_that_insertions_make(count in 0..10_000_u32, weight in 0..3_usize) {
        let items: Vec<_> = (0..count).map(|key| Entry { key, weight }).collect();
        let mut tree = Tree::from_sorted(items.into_iter());
        let mut model: Model = (0..count).map(|key| (key, weight)).collect();
        check(&tree, &model);
        let (leaves, depth) = shape(&tree);
        prop_assert_eq!(leaves, (count as usize).div_ceil(MAX_ITEMS));
        prop_assert!(depth <= shape(&ascending(count)).1);
        for key in (0..count + 100).step_by(7) {
            apply(&mut tree, &mut model, &Step::Insert(key, 1));
            apply(&mut tree, &mut model, &Step::Remove(key + 3));
        }
        check(&tree, &model);
        shape(&tree);
    }
}

/// An item that counts what is done with it.
struct Counted<'a> {
    key: u32,
    weighed: &'a std::cell::Cell<usize>,
    copied: &'a std::cell::Cell<usize>,
}

impl Clone for Counted<'_> {
    fn clone(&self) -> Self {
        self.copied.set(self.copied.get() + 1);
        Self { ..*self }
    }
}

impl Item for Counted<'_> {
    type Key = u32;
    type OwnedKey = u32;

    fn key(&self) -> &u32 {
        &self.key
    }

    fn owned_key(&self) -> u32 {
        self.key
    }

    fn weight(&self) -> usize {
        self.weighed.set(self.weighed.get() + 1);
        1
    }
}

#[test]
fn sorted_items_are_visited_once_and_not_copied() {
    let (weighed, copied) = Default::default();
    let items: Vec<_> = (0..100_000)
        .map(|key| Counted {
            key,
            weighed: &weighed,
            copied: &copied,
        })
        .collect();
    let tree = Tree::from_sorted(items.into_iter());
    assert_eq!((weighed.get(), copied.get()), (100_000, 0));
    assert_eq!(tree.weight(), 100_000);
}
