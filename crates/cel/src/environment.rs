//! What an expression may speak of.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::function::{Function, function};
use crate::types::{ObjectType, Type};

/// Variables, types and functions. It is cheap to clone.
///
/// The functions are those of Kubernetes' base environment, which include the ones on an authorizer:
/// without the variable `authorizer` there is nothing to call them on.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, Type>,
    objects: BTreeMap<String, Arc<ObjectType>>,
    mutation: bool,
}

impl Environment {
    /// Functions, and no variable.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a rule of a schema may speak of: `self`, the value at its node, and `oldSelf`, which is
    /// the value before the update, of the same type or of an optional one.
    #[must_use]
    pub fn rule(of: &Type, old: OldSelf) -> Self {
        let before = match old {
            OldSelf::Required => of.clone(),
            OldSelf::Optional => Type::optional(of.clone()),
        };
        Self::new().with("self", of.clone()).with("oldSelf", before)
    }

    /// With one more variable. Its name may be qualified: `authorizer.requestResource`.
    #[must_use]
    pub fn with(mut self, name: &str, of: Type) -> Self {
        self.variables.insert(name.to_owned(), of);
        self
    }

    /// With one more type that expressions can make values of: `Name{field: value}`.
    #[must_use]
    pub fn with_object(mut self, of: Arc<ObjectType>) -> Self {
        self.objects.insert(of.name.clone(), of);
        self
    }

    /// With the functions and the types of objects that only policies that change objects have.
    #[must_use]
    pub fn with_mutation(mut self) -> Self {
        self.mutation = true;
        self
    }

    /// The type of a variable, or of the name of a type.
    pub(crate) fn ident(&self, name: &str) -> Option<Type> {
        if let Some(of) = self.variables.get(name) {
            return Some(of.clone());
        }
        let of = match self.objects.get(name) {
            Some(of) => Type::Object(of.clone()),
            None if self.mutation && ObjectType::is_made(name) => {
                Type::Object(Arc::new(ObjectType {
                    name: name.to_owned(),
                    fields: BTreeMap::new(),
                }))
            }
            None => type_named(name)?,
        };
        Some(Type::Meta(Arc::new(of)))
    }

    /// The function of this name.
    pub(crate) fn function(&self, name: &str) -> Option<&'static Function> {
        let found = function(name)?;
        (self.mutation || !name.starts_with("jsonpatch.")).then_some(found)
    }

    /// Whether the name of a type is also its value. Two names are only there to be looked up: they
    /// can be checked, but not evaluated.
    pub(crate) fn evaluates(&self, name: &str) -> bool {
        self.variables.contains_key(name) || !matches!(name, "duration" | "timestamp")
    }
}

/// How `oldSelf` is given to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldSelf {
    /// As it is: the rule is not evaluated where there is none.
    Required,
    /// As an optional value (`optionalOldSelf: true`).
    Optional,
}

fn type_named(name: &str) -> Option<Type> {
    let param = |name: &str| Type::Param(name.into());
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" | "google.protobuf.NullValue" => Type::Null,
        "list" => Type::list(param("A")),
        "map" => Type::map(param("A"), param("B")),
        "google.protobuf.Duration" | "duration" => Type::Duration,
        "google.protobuf.Timestamp" | "timestamp" => Type::Timestamp,
        "type" => Type::Opaque("type".into()),
        "optional_type" => Type::optional(param("T")),
        "net.IP" | "net.CIDR" => Type::Opaque(name.into()),
        "google.protobuf.Value" | "google.protobuf.Any" => Type::Dyn,
        "google.protobuf.ListValue" => Type::list(Type::Dyn),
        "google.protobuf.Struct" => Type::map(Type::String, Type::Dyn),
        _ => return None,
    })
}
