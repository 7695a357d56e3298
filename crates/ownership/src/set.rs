//! Sets of paths.

mod algebra;
mod codec;
mod element;
mod order;

pub use codec::NotASet;
pub use element::{Element, Path};
pub(crate) use order::{compare_keys, compare_values, equal_values};

/// A set of paths: a tree in which each node may be a member itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {
    /// The nodes in the order of their elements, without duplicates; each is a member or has one
    /// below.
    nodes: Vec<Node>,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
struct Node {
    element: Element,
    member: bool,
    below: Set,
}

impl Set {
    /// Creates a set of paths.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a [Element]>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        let count = |node: &Node| usize::from(node.member) + node.below.len();
        self.nodes.iter().map(count).sum()
    }

    /// Inserts a path. The empty path, which is the whole object, is never a member.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let at = match self.find(first) {
            Ok(at) => at,
            Err(at) => {
                let node = Node {
                    element: first.clone(),
                    member: false,
                    below: Self::default(),
                };
                self.nodes.insert(at, node);
                at
            }
        };
        match rest {
            [] => self.nodes[at].member = true,
            rest => self.nodes[at].below.insert(rest),
        }
    }

    /// Returns whether the path is a member.
    pub fn has(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else {
            return false;
        };
        match (self.find(first), rest) {
            (Ok(at), []) => self.nodes[at].member,
            (Ok(at), rest) => self.nodes[at].below.has(rest),
            (Err(_), _) => false,
        }
    }

    /// Returns all members in the order of Kubernetes: at every level first the members, then those
    /// below them.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.list(&mut Vec::new(), &mut paths);
        paths
    }

    /// Creates an empty set with capacity for this many elements.
    pub(crate) fn with_capacity(elements: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(elements),
        }
    }

    /// Returns whether the element is a member, and the set below it.
    pub(crate) fn at(&self, is: impl Fn(&Element) -> std::cmp::Ordering) -> Option<(bool, &Self)> {
        let at = self.nodes.binary_search_by(|node| is(&node.element)).ok()?;
        let node = &self.nodes[at];
        Some((node.member, &node.below))
    }

    /// Iterates over the elements in order, with the set below each and whether it is a member.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = (&Element, bool, &Self)> {
        self.nodes
            .iter()
            .map(|node| (&node.element, node.member, &node.below))
    }

    /// Appends an element that sorts after all others, if it is a member or has one below.
    pub(crate) fn push(&mut self, element: impl FnOnce() -> Element, member: bool, below: Self) {
        if !member && below.is_empty() {
            return;
        }
        let node = Node {
            element: element(),
            member,
            below,
        };
        debug_assert!(
            self.nodes
                .last()
                .is_none_or(|last| last.element < node.element)
        );
        self.nodes.push(node);
    }

    /// Creates a set of nodes in any order. Of duplicates the last one counts.
    fn sorted(mut nodes: Vec<Node>) -> Self {
        if !nodes.is_sorted_by(|one, two| one.element < two.element) {
            nodes.reverse();
            nodes.sort_by(|one, two| one.element.cmp(&two.element));
            nodes.dedup_by(|one, two| one.element == two.element);
        }
        Self { nodes }
    }

    fn find(&self, element: &Element) -> Result<usize, usize> {
        self.nodes
            .binary_search_by(|node| node.element.cmp(element))
    }

    fn list(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Path>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            paths.push(Path(path));
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            prefix.push(node.element.clone());
            node.below.list(prefix, paths);
            prefix.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &str) -> Vec<Element> {
        let field = |name: &str| Element::Field(name.into());
        names.split('.').map(field).collect()
    }

    #[test]
    fn a_path_is_a_member_only_if_it_was_inserted() {
        let mut set = Set::default();
        set.insert(&path("a.b"));
        set.insert(&path("a"));
        set.insert(&path("c.d.e"));
        set.insert(&[]);
        for (of, is) in [
            ("a", true),
            ("a.b", true),
            ("c", false),
            ("c.d", false),
            ("c.d.e", true),
            ("c.d.e.f", false),
            ("x", false),
        ] {
            assert_eq!(set.has(&path(of)), is, "{of}");
        }
        assert!(!set.has(&[]));
        assert_eq!(set.len(), 3);
    }

    #[test]
    fn members_of_a_node_are_listed_before_those_below_it() {
        let set = Set::of([&path("a.x")[..], &path("b"), &path("c.y"), &path("c")]);
        let paths: Vec<_> = set.paths().iter().map(Path::to_string).collect();
        assert_eq!(paths, [".b", ".c", ".a.x", ".c.y"]);
    }
}
