//! Sets of paths.

use insula_kinds::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Element {
    /// A member of an object: `f:name`.
    Field(Box<str>),
    /// The element of a list that has these members, which are in the order of their names:
    /// `k:{"name":"c"}`.
    Key(Box<[(Box<str>, Value)]>),
    /// The element of a set that is this value: `v:"a"`.
    Value(Value),
    /// The element of a list at this place: `i:0`.
    Index(i64),
}

/// A path to a part of an object. Written `.spec.containers[name="c"].image`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path(pub Vec<Element>);

/// A set of paths: a tree that knows of each place whether it is a member itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {}

/// What is not the text of a set.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotASet(pub String);

impl Set {
    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// Makes a path a member.
    pub fn insert(&mut self, _path: &[Element]) {
        todo!()
    }

    /// Whether the path is a member.
    pub fn has(&self, _path: &[Element]) -> bool {
        todo!()
    }

    /// Members of either.
    #[must_use]
    pub fn union(&self, _other: &Self) -> Self {
        todo!()
    }

    /// Members of both.
    #[must_use]
    pub fn intersection(&self, _other: &Self) -> Self {
        todo!()
    }

    /// Members of this and not of the other.
    #[must_use]
    pub fn difference(&self, _other: &Self) -> Self {
        todo!()
    }

    /// Members of this of which neither they nor anything above them is in the other.
    #[must_use]
    pub fn recursive_difference(&self, _other: &Self) -> Self {
        todo!()
    }

    /// The members that have no member below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        todo!()
    }

    /// All members, in the order in which they are written.
    pub fn paths(&self) -> Vec<Path> {
        todo!()
    }

    /// From `fieldsV1`.
    pub fn parse(_text: &str) -> Result<Self, NotASet> {
        todo!()
    }

    /// From the value of a `fieldsV1` member of an object.
    pub fn read(_fields: &Value) -> Result<Self, NotASet> {
        todo!()
    }

    /// The value of a `fieldsV1` member, with its members in Kubernetes' order.
    pub fn write(&self) -> Value {
        todo!()
    }
}
