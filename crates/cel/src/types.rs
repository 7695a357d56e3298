//! The types of values.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Anything: judged when it is evaluated.
    Dyn,
    /// What follows from an error that was already reported.
    Error,
    /// `null_type`
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<Type>, Arc<Type>),
    /// `optional_type(T)`
    Optional(Arc<Type>),
    /// The type of a type.
    Meta(Arc<Type>),
    /// What has fields of its own, such as the value at a node of a schema.
    Object(Arc<ObjectType>),
    /// A type of a library, such as `kubernetes.Quantity`.
    Opaque(Arc<str>),
    /// A parameter of a generic function.
    Param(Arc<str>),
}

/// A type with fields. Two are the same if their names are.
#[derive(Debug)]
pub struct ObjectType {
    /// Its name, which messages print.
    pub name: String,
    /// Its fields, by the names that expressions call them: escaped.
    pub fields: BTreeMap<String, Field>,
}

/// A field of a type.
#[derive(Clone, Debug)]
pub struct Field {
    /// The type of its value.
    pub of: Type,
    /// Its name in the JSON.
    pub name: String,
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
