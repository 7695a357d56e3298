//! Merge schemas.
//!
//! A [`Schema`] is accessed through [`Ref`]s, which are resolved on demand. Built-in types are read
//! from the table; the schemas of custom resources are compiled once.

mod built_in;
mod custom;

use std::sync::Arc;

use insula_kinds::{Field, Shape, TypeId, Value};

use custom::Node;

/// The merge schema of a type.
#[derive(Clone, Debug)]
pub struct Schema(Root);

#[derive(Clone, Debug)]
enum Root {
    BuiltIn(TypeId),
    Custom(Arc<Node>),
    /// No schema: each value is handled by its JSON type.
    Deduced,
}

impl Schema {
    /// Returns the schema of a built-in type.
    pub fn built_in(of: TypeId) -> Self {
        Self(Root::BuiltIn(of))
    }

    /// Returns the schema of a custom resource with this `openAPIV3Schema`, or without one.
    pub fn custom(schema: Option<&Value>) -> Arc<Self> {
        let root = match schema {
            Some(schema) => Root::Custom(Arc::new(custom::compile_root(schema))),
            None => Root::Deduced,
        };
        Arc::new(Self(root))
    }

    /// Returns the type of whole objects.
    pub(crate) fn root(&self) -> Ref<'_> {
        match &self.0 {
            Root::BuiltIn(of) => Ref::Struct(*of, None),
            Root::Custom(node) => Ref::Node(node),
            Root::Deduced => Ref::Deduced,
        }
    }
}

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ref<'a> {
    /// No value is allowed.
    Nothing,
    /// Any value. Objects are merged, lists are atomic.
    Deduced,
    /// Any value, atomic.
    Whole,
    /// A built-in type, and the relation of its members if the reference sets one.
    Struct(TypeId, Option<Relation>),
    /// A field of a built-in type.
    Field(&'a Field),
    /// Elements of a list or map of a built-in type.
    Shape(&'a Shape),
    /// A node of a custom schema.
    Node(&'a Node),
    /// `apiVersion` and `kind`.
    Text,
}

/// How the members of an object are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Atomically.
    Atomic,
    /// Each on its own.
    Separable,
}

/// The alternatives of a value. There is at least one, except for [`Ref::Nothing`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Atom<'a> {
    pub scalar: Option<Scalar>,
    pub list: Option<List<'a>>,
    pub map: Option<Map<'a>>,
}

/// How a value is handled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handling<'a> {
    Map(Map<'a>),
    Scalar(Scalar),
    List(List<'a>),
    /// No value is allowed.
    Nothing,
}

/// The alternative that a value is handled as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alternative {
    Map,
    Scalar,
    List,
    /// Undecided, as for null: the first alternative there is.
    Open,
}

/// A scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// A list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a> {
    pub relation: ListRelation<'a>,
    pub element: Ref<'a>,
}

/// How the elements of a list are merged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListRelation<'a> {
    /// Atomically.
    Atomic,
    /// As a set of values.
    Set,
    /// By the values of these members.
    Keys(Keys<'a>),
}

/// The names of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys<'a> {
    BuiltIn(&'a [&'static str]),
    Custom(&'a [String]),
}

/// An object: declared members and others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map<'a> {
    pub atomic: bool,
    members: Members<'a>,
    /// The type of undeclared members.
    pub element: Ref<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Members<'a> {
    None,
    Type(TypeId),
    Node(&'a Node),
}

impl<'a> Ref<'a> {
    /// Resolves the type.
    pub(crate) fn atom(self) -> Atom<'a> {
        match self {
            Self::Nothing => Atom::default(),
            Self::Deduced => Atom::any(Self::Deduced, false),
            Self::Whole => Atom::any(Self::Whole, true),
            Self::Text => Atom::of(Scalar::String),
            Self::Struct(of, relation) => built_in::of_type(of, relation),
            Self::Field(field) => built_in::of_field(field),
            Self::Shape(shape) => built_in::of_shape(shape),
            Self::Node(node) => node.atom(),
        }
    }

    /// Returns how a value of the type is handled.
    pub(crate) fn handling(self, value: &Value) -> Handling<'a> {
        let atom = self.atom();
        atom.handling(atom.alternative(value))
    }

    /// Returns whether there is no schema.
    pub(crate) fn is_deduced(self) -> bool {
        match self {
            Self::Deduced => true,
            Self::Nothing | Self::Whole | Self::Struct(..) => false,
            inlined => inlined.atom().scalar == Some(Scalar::Untyped),
        }
    }
}

impl<'a> Atom<'a> {
    /// Returns the alternative that a value is handled as.
    pub(crate) fn alternative(&self, value: &Value) -> Alternative {
        let (map, scalar, list) = (
            self.map.is_some(),
            self.scalar.is_some(),
            self.list.is_some(),
        );
        match (map, scalar, list) {
            (true, false, false) => return Alternative::Map,
            (false, true, false) => return Alternative::Scalar,
            (false, false, true) => return Alternative::List,
            _ => {}
        }
        match value {
            Value::Object(_) if map => Alternative::Map,
            Value::Array(_) if list => Alternative::List,
            Value::Bool(_) | Value::Number(_) | Value::String(_) if scalar => Alternative::Scalar,
            _ => Alternative::Open,
        }
    }

    /// Returns the handling of an alternative.
    pub(crate) fn handling(&self, alternative: Alternative) -> Handling<'a> {
        let map = || self.map.map(Handling::Map);
        let scalar = || self.scalar.map(Handling::Scalar);
        let list = || self.list.map(Handling::List);
        let handling = match alternative {
            Alternative::Map => map(),
            Alternative::Scalar => scalar(),
            Alternative::List => list(),
            Alternative::Open => map().or_else(scalar).or_else(list),
        };
        handling.unwrap_or(Handling::Nothing)
    }

    fn of(scalar: Scalar) -> Self {
        Self {
            scalar: Some(scalar),
            ..Self::default()
        }
    }

    fn of_map(map: Map<'a>) -> Self {
        Self {
            map: Some(map),
            ..Self::default()
        }
    }

    fn of_list(list: List<'a>) -> Self {
        Self {
            list: Some(list),
            ..Self::default()
        }
    }

    /// Any value: an object with members of a type, an atomic list, or a scalar.
    fn any(element: Ref<'a>, atomic: bool) -> Self {
        Self {
            scalar: Some(Scalar::Untyped),
            list: Some(List {
                relation: ListRelation::Atomic,
                element: Ref::Whole,
            }),
            map: Some(Map {
                atomic,
                members: Members::None,
                element,
            }),
        }
    }
}

impl<'a> Map<'a> {
    /// Returns the type of a declared member.
    pub fn declared(&self, name: &str) -> Option<Ref<'a>> {
        match self.members {
            Members::None => None,
            Members::Type(of) => built_in::member(of, name),
            Members::Node(node) => node.member(name),
        }
    }

    /// Returns the type of a member, declared or not.
    pub(crate) fn member(&self, name: &str) -> Ref<'a> {
        self.declared(name).unwrap_or(self.element)
    }

    /// Returns the default of a missing member.
    pub fn default(&self, name: &str) -> Option<Value> {
        match self.members {
            Members::None => None,
            Members::Type(of) => built_in::default(of, name),
            Members::Node(node) => node.default(name).cloned(),
        }
    }

    /// Returns whether no member is declared.
    pub(crate) fn is_open(&self) -> bool {
        match self.members {
            Members::None => true,
            Members::Type(_) => false,
            Members::Node(node) => node.is_open(),
        }
    }
}

impl<'a> Keys<'a> {
    /// Iterates over the names.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let (built_in, custom) = match self {
            Self::BuiltIn(names) => (names, &[][..]),
            Self::Custom(names) => (&[][..], names),
        };
        let custom = custom.iter().map(String::as_str);
        built_in.iter().copied().chain(custom)
    }
}
