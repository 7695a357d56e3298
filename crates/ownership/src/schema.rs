//! How values are merged.
//!
//! A [`Schema`] is looked at through [`Ref`]s, which say what a value may be when somebody
//! asks. The types of the table are read where they are; what a user defined is compiled
//! once.

mod built_in;
mod custom;

use std::sync::Arc;

use insula_kinds::{Field, Shape, TypeId, Value};

use custom::Node;

/// How values of a type are merged.
#[derive(Clone, Debug)]
pub struct Schema(Root);

#[derive(Clone, Debug)]
enum Root {
    BuiltIn(TypeId),
    Custom(Arc<Node>),
    /// Whatever an object says: each member by what it looks like.
    Deduced,
}

impl Schema {
    /// Of a type of the table.
    pub fn built_in(of: TypeId) -> Self {
        Self(Root::BuiltIn(of))
    }

    /// Of a kind that a user defined with this `openAPIV3Schema`, or with none.
    pub fn custom(schema: Option<&Value>) -> Arc<Self> {
        let root = match schema {
            Some(schema) => Root::Custom(Arc::new(custom::compile_root(schema))),
            None => Root::Deduced,
        };
        Arc::new(Self(root))
    }

    /// What an object of the type is.
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
    /// None: no such value may be there.
    Nothing,
    /// Anything. Objects are merged, lists are taken as a whole.
    Deduced,
    /// Anything, as a whole.
    Whole,
    /// A type of the table, and how whoever refers to it wants its members to be related.
    Struct(TypeId, Option<Relation>),
    /// A field of the table.
    Field(&'a Field),
    /// Elements of a list or map of the table.
    Shape(&'a Shape),
    /// Part of a schema that a user wrote.
    Node(&'a Node),
    /// `apiVersion` and `kind`.
    Text,
}

/// How members of an object are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// They are taken as a whole.
    Atomic,
    /// Each is for itself.
    Separable,
}

/// What a value may be. At least one of them, but for [`Ref::Nothing`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Atom<'a> {
    pub scalar: Option<Scalar>,
    pub list: Option<List<'a>>,
    pub map: Option<Map<'a>>,
}

/// As what a value is handled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handling<'a> {
    Map(Map<'a>),
    Scalar(Scalar),
    List(List<'a>),
    /// No such value may be there.
    Nothing,
}

/// What a value looks like, where its type leaves that open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    Map,
    Scalar,
    List,
    /// Like nothing that is allowed, as null does.
    Open,
}

/// A value without parts.
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

/// How elements of a list are related.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListRelation<'a> {
    /// They are taken as a whole.
    Atomic,
    /// Each value is there once.
    Set,
    /// The values of these members tell them apart.
    Keys(Keys<'a>),
}

/// Names of members.
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
    /// What members are that are not declared.
    pub element: Ref<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Members<'a> {
    None,
    Type(TypeId),
    Node(&'a Node),
}

impl<'a> Ref<'a> {
    /// What a value of the type may be.
    pub fn atom(self) -> Atom<'a> {
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

    /// As what a value of the type is handled.
    pub fn handling(self, value: &Value) -> Handling<'a> {
        let atom = self.atom();
        atom.handling(atom.looks(value))
    }

    /// Whether it is the type of what is known by its looks only.
    pub fn is_deduced(self) -> bool {
        match self {
            Self::Deduced => true,
            Self::Nothing | Self::Whole | Self::Struct(..) => false,
            inlined => inlined.atom().scalar == Some(Scalar::Untyped),
        }
    }
}

impl<'a> Atom<'a> {
    /// What a value looks like.
    pub fn looks(&self, value: &Value) -> Looks {
        let (map, scalar, list) = (
            self.map.is_some(),
            self.scalar.is_some(),
            self.list.is_some(),
        );
        match (map, scalar, list) {
            (true, false, false) => return Looks::Map,
            (false, true, false) => return Looks::Scalar,
            (false, false, true) => return Looks::List,
            _ => {}
        }
        match value {
            Value::Object(_) if map => Looks::Map,
            Value::Array(_) if list => Looks::List,
            Value::Bool(_) | Value::Number(_) | Value::String(_) if scalar => Looks::Scalar,
            _ => Looks::Open,
        }
    }

    /// As what something that looks so is handled.
    pub fn handling(&self, looks: Looks) -> Handling<'a> {
        let map = || self.map.map(Handling::Map);
        let scalar = || self.scalar.map(Handling::Scalar);
        let list = || self.list.map(Handling::List);
        let handling = match looks {
            Looks::Map => map(),
            Looks::Scalar => scalar(),
            Looks::List => list(),
            Looks::Open => map().or_else(scalar).or_else(list),
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

    /// Anything: an object whose members are of a type, a list as a whole, or a scalar.
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
    /// The type of a declared member.
    pub fn declared(&self, name: &str) -> Option<Ref<'a>> {
        match self.members {
            Members::None => None,
            Members::Type(of) => built_in::member(of, name),
            Members::Node(node) => node.member(name),
        }
    }

    /// The type of a member, declared or not.
    pub fn member(&self, name: &str) -> Ref<'a> {
        self.declared(name).unwrap_or(self.element)
    }

    /// What a member is if it is not there.
    pub fn default(&self, name: &str) -> Option<Value> {
        match self.members {
            Members::None => None,
            Members::Type(of) => built_in::default(of, name),
            Members::Node(node) => node.default(name).cloned(),
        }
    }

    /// Whether no member is declared.
    pub fn is_open(&self) -> bool {
        match self.members {
            Members::None => true,
            Members::Type(_) => false,
            Members::Node(node) => node.is_open(),
        }
    }
}

impl<'a> Keys<'a> {
    /// The names.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let (built_in, custom) = match self {
            Self::BuiltIn(names) => (names, &[][..]),
            Self::Custom(names) => (&[][..], names),
        };
        let custom = custom.iter().map(String::as_str);
        built_in.iter().copied().chain(custom)
    }
}
