//! The declarations that an expression is checked against.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::function::{Function, function};
use crate::types::{Field, ObjectType, Type};

/// The variables, types and functions of an expression.
///
/// The functions are those of Kubernetes' base environment, including those of the authorizer,
/// which cannot be called without the variable `authorizer`.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, Type>,
    objects: BTreeMap<String, Arc<ObjectType>>,
    mutation: bool,
}

impl Environment {
    /// Creates an environment without variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the environment of a validation rule: `self` is the value at its schema node,
    /// `oldSelf` the value before the update, of the same type or optional.
    #[must_use]
    pub fn rule(of: &Type, old: OldSelf) -> Self {
        let before = match old {
            OldSelf::Required => of.clone(),
            OldSelf::Optional => Type::optional(of.clone()),
        };
        Self::new().with("self", of.clone()).with("oldSelf", before)
    }

    /// Adds a variable. Its name may be qualified: `authorizer.requestResource`.
    #[must_use]
    pub fn with(mut self, name: &str, of: Type) -> Self {
        self.variables.insert(name.to_owned(), of);
        self
    }

    /// Adds a type that expressions can construct: `Name{field: value}`.
    #[must_use]
    pub fn with_object(mut self, of: Arc<ObjectType>) -> Self {
        self.objects.insert(of.name.clone(), of);
        self
    }

    /// Adds the declarations of mutating policies: `jsonpatch.escapeKey`, `JSONPatch{…}`, and
    /// `Object{…}`, `Object.spec{…}` and so on, with any fields.
    #[must_use]
    pub fn with_mutation(mut self) -> Self {
        self.mutation = true;
        let field = |name: &str, of| {
            (
                name.to_owned(),
                Field {
                    of,
                    name: name.to_owned(),
                },
            )
        };
        let patch = ObjectType {
            name: "JSONPatch".to_owned(),
            fields: BTreeMap::from([
                field("op", Type::String),
                field("path", Type::String),
                field("from", Type::String),
                field("value", Type::Dyn),
            ]),
        };
        self.with_object(Arc::new(patch))
    }

    /// Returns the type of a variable or of a type name.
    pub(crate) fn ident(&self, name: &str) -> Option<Type> {
        if let Some(of) = self.variables.get(name) {
            return Some(of.clone());
        }
        let of = match self.objects.get(name) {
            Some(of) => Type::Object(of.clone()),
            None if self.mutation && is_open(name) => Type::Object(Arc::new(ObjectType {
                name: name.to_owned(),
                fields: BTreeMap::new(),
            })),
            None => type_named(name)?,
        };
        Some(Type::Meta(Arc::new(of)))
    }

    /// Returns the function of this name.
    pub(crate) fn function(&self, name: &str) -> Option<&'static Function> {
        let found = function(name)?;
        (self.mutation || !name.starts_with("jsonpatch.")).then_some(found)
    }

    /// Returns the type of a field. The fields of an `Object` of a mutation have no declared types.
    pub(crate) fn field(&self, of: &ObjectType, field: &str) -> Option<Type> {
        if self.mutation && is_open(&of.name) {
            return Some(Type::Dyn);
        }
        of.fields.get(field).map(|field| field.of.clone())
    }
}

/// How a rule receives `oldSelf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldSelf {
    /// As it is: the rule is not evaluated without an old value.
    Required,
    /// As an optional value (`optionalOldSelf: true`).
    Optional,
}

fn is_open(name: &str) -> bool {
    name == "Object" || name.starts_with("Object.")
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
        "null_type" => Type::Null,
        "list" => Type::list(param("A")),
        "map" => Type::map(param("A"), param("B")),
        "google.protobuf.Duration" | "duration" => Type::Duration,
        "google.protobuf.Timestamp" | "timestamp" => Type::Timestamp,
        "type" => Type::Opaque("type".into()),
        "optional_type" => Type::optional(param("T")),
        "net.IP" | "net.CIDR" => Type::Opaque(name.into()),
        "google.protobuf.Value" => Type::Dyn,
        "google.protobuf.Any" => Type::Opaque("any".into()),
        "google.protobuf.ListValue" => Type::list(Type::Dyn),
        "google.protobuf.Struct" => Type::map(Type::String, Type::Dyn),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;

    fn output(environment: &Environment, source: &str) -> Result<String, String> {
        let program = Program::compile(environment, source);
        program.map(|it| it.output().to_string()).map_err(|issues| {
            let first = issues.iter().next().map(|issue| issue.message.clone());
            first.unwrap_or_default()
        })
    }

    #[test]
    fn only_mutating_policies_can_construct_objects_and_patches() {
        let plain = Environment::new();
        let mutation = Environment::new().with_mutation();
        let undeclared = |name: &str| {
            Err(format!(
                "undeclared reference to '{name}' (in container '')"
            ))
        };
        for (source, expected) in [
            (
                "Object{spec: Object.spec{replicas: 3}}",
                Ok("Object".to_owned()),
            ),
            (
                "Object.spec{any: 1, thing: 'a'}",
                Ok("Object.spec".to_owned()),
            ),
            ("Object{}.anything", Ok("dyn".to_owned())),
            (
                "[JSONPatch{op: 'add', path: '/a', value: 1}]",
                Ok("list(JSONPatch)".to_owned()),
            ),
            (
                "JSONPatch{op: 1}",
                Err(
                    "expected type of field 'op' is 'string' but provided type is 'int'".to_owned(),
                ),
            ),
            ("JSONPatch{zz: 1}", Err("undefined field 'zz'".to_owned())),
            ("Objects{}", undeclared("Objects")),
            ("int{}", Err("'int' is not a message type".to_owned())),
            ("jsonpatch.escapeKey('a/b')", Ok("string".to_owned())),
        ] {
            assert_eq!(output(&mutation, source), expected, "{source}");
        }
        assert_eq!(output(&plain, "Object{}"), undeclared("Object"));
        assert_eq!(output(&plain, "JSONPatch{}"), undeclared("JSONPatch"));
        assert_eq!(
            output(&plain, "jsonpatch.escapeKey('a')"),
            undeclared("jsonpatch")
        );
    }

    #[test]
    fn a_variable_may_have_a_qualified_name() {
        let opaque = |name: &str| Type::Opaque(format!("kubernetes.authorization.{name}").into());
        let environment = Environment::new()
            .with("authorizer", opaque("Authorizer"))
            .with("authorizer.requestResource", opaque("ResourceCheck"));
        for (source, expected) in [
            (
                "authorizer.group('apps').resource('pods').check('get').allowed()",
                "bool",
            ),
            ("authorizer.requestResource.check('get').reason()", "string"),
            (
                "authorizer.requestResource",
                "kubernetes.authorization.ResourceCheck",
            ),
        ] {
            assert_eq!(
                output(&environment, source).as_deref(),
                Ok(expected),
                "{source}"
            );
        }
    }

    #[test]
    fn a_loop_variable_shadows_one_of_the_environment() {
        let environment = Environment::new().with("x", Type::String);
        assert_eq!(
            output(&environment, "[1].map(x, x)").as_deref(),
            Ok("list(int)")
        );
        assert_eq!(
            output(&environment, "[x].map(y, x)").as_deref(),
            Ok("list(string)")
        );
    }
}
