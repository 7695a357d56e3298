//! Operations on two sets. Both are walked once, in order.

use std::cmp::Ordering;

use super::{Node, Set};

impl Set {
    /// Returns the members of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let both = |one: &Node, two: &Node| {
            Some(Node {
                element: one.element.clone(),
                member: one.member || two.member,
                below: one.below.union(&two.below),
            })
        };
        self.zip(
            other,
            |one| Some(one.clone()),
            |two| Some(two.clone()),
            both,
        )
    }

    /// Returns the members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = |one: &Node, two: &Node| {
            one.with(one.member && two.member, || {
                one.below.intersection(&two.below)
            })
        };
        self.zip(other, |_| None, |_| None, both)
    }

    /// Returns the members that are not in the other set.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let both = |one: &Node, two: &Node| {
            one.with(one.member && !two.member, || {
                one.below.difference(&two.below)
            })
        };
        self.zip(other, |one| Some(one.clone()), |_| None, both)
    }

    /// Returns the members that are neither in the other set nor below one of its members.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let both = |one: &Node, two: &Node| match two.member {
            true => None,
            false => one.with(one.member, || one.below.recursive_difference(&two.below)),
        };
        self.zip(other, |one| Some(one.clone()), |_| None, both)
    }

    /// Returns whether a member is in both sets. Unlike the intersection, it allocates nothing.
    pub fn intersects(&self, other: &Self) -> bool {
        self.pairs(other, |one, two| {
            (one.member && two.member) || one.below.intersects(&two.below)
        })
    }

    /// Returns whether every member is in the other set.
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut found = 0;
        let differs = self.pairs(other, |one, two| {
            found += 1;
            (one.member && !two.member) || !one.below.is_subset(&two.below)
        });
        !differs && found == self.nodes.len()
    }

    /// Returns whether the condition holds for a pair of nodes with the same element.
    fn pairs(&self, other: &Self, mut holds: impl FnMut(&Node, &Node) -> bool) -> bool {
        let (mut ones, mut twos) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        while let (Some(one), Some(two)) = (ones.peek(), twos.peek()) {
            match one.element.cmp(&two.element) {
                Ordering::Less => drop(ones.next()),
                Ordering::Greater => drop(twos.next()),
                Ordering::Equal if holds(one, two) => return true,
                Ordering::Equal => {
                    ones.next();
                    twos.next();
                }
            }
        }
        false
    }

    /// Returns the members without members below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let leaf = |node: &Node| Node {
            element: node.element.clone(),
            member: node.below.is_empty(),
            below: node.below.leaves(),
        };
        Self {
            nodes: self.nodes.iter().map(leaf).collect(),
        }
    }

    fn zip(
        &self,
        other: &Self,
        one: impl Fn(&Node) -> Option<Node>,
        two: impl Fn(&Node) -> Option<Node>,
        both: impl Fn(&Node, &Node) -> Option<Node>,
    ) -> Self {
        let (mut ones, mut twos) = (self.nodes.as_slice(), other.nodes.as_slice());
        let mut nodes = Vec::new();
        loop {
            let order = match (ones.first(), twos.first()) {
                (None, None) => return Self { nodes },
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(two)) => one.element.cmp(&two.element),
            };
            let node = match order {
                Ordering::Less => one(&ones[0]),
                Ordering::Greater => two(&twos[0]),
                Ordering::Equal => both(&ones[0], &twos[0]),
            };
            nodes.extend(node);
            ones = &ones[usize::from(order != Ordering::Greater)..];
            twos = &twos[usize::from(order != Ordering::Less)..];
        }
    }
}

impl Node {
    /// Returns the same node with other members, if it has any.
    fn with(&self, member: bool, below: impl FnOnce() -> Set) -> Option<Self> {
        let below = match self.below.is_empty() {
            true => Set::default(),
            false => below(),
        };
        (member || !below.is_empty()).then(|| Self {
            element: self.element.clone(),
            member,
            below,
        })
    }
}
