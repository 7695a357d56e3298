//! Compiled admission expressions: the variables that each role can access, and its result
//! type.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use insula_cel::{Environment, Field, ObjectType, Plan, Program, Type};

/// The role of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A match condition of a webhook or policy.
    Condition,
    /// A validation of a policy.
    Validation,
    /// The message of a denial.
    Message,
    /// An audit annotation.
    Audit,
    /// A variable that later expressions refer to.
    Variable,
    /// An apply configuration for the object.
    Apply,
    /// A JSON patch for the object.
    Patch,
}

/// A compiled expression, or its compilation error.
#[derive(Debug)]
pub(crate) struct Expression {
    /// The source text.
    pub source: String,
    /// The evaluation plan.
    pub plan: Result<Plan, String>,
    /// The nesting depth.
    pub depth: usize,
}

impl Expression {
    fn new(source: &str, compiled: Result<Program, String>) -> Self {
        let depth = compiled.as_ref().map_or(0, Program::depth);
        let plan = compiled.and_then(|program| {
            let plan = Plan::new(&program);
            plan.map_err(|why| format!("program instantiation failed: {why}"))
        });
        Self {
            source: source.to_owned(),
            plan,
            depth,
        }
    }
}

/// Compiles the expressions of one configuration.
#[derive(Clone, Debug)]
pub struct Compiler {
    params: bool,
    /// The types of declared variables; `None` if variables are not supported.
    variables: Option<BTreeMap<String, Field>>,
}

impl Compiler {
    /// A compiler for expressions with or without access to `params`.
    pub fn new(params: bool) -> Self {
        Self {
            params,
            variables: None,
        }
    }

    /// Adds access to variables, once they are declared.
    #[must_use]
    pub fn composed(self) -> Self {
        Self {
            variables: Some(BTreeMap::new()),
            ..self
        }
    }

    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// If the expression is invalid, in the wording that users see.
    pub fn compile(&self, source: &str, role: Role) -> Result<Program, String> {
        let program = Program::compile(&self.environment(role), source)
            .map_err(|issues| format!("compilation failed: {issues}"))?;
        let wanted = role.results();
        if !wanted.is_empty() && !wanted.contains(program.output()) {
            let found = name(program.output());
            let wanted: Vec<_> = wanted.iter().map(name).collect();
            return Err(match wanted.as_slice() {
                [one] => format!("must evaluate to {one} but got {found}"),
                several => {
                    let several = several.join(" ");
                    format!("must evaluate to one of [{several}] but got {found}")
                }
            });
        }
        match program.defect() {
            Some(why) => Err(format!("program instantiation failed: {why}")),
            None => Ok(program),
        }
    }

    /// Compiles a variable, and makes it accessible to later expressions even if it is invalid.
    ///
    /// # Errors
    ///
    /// If the expression is invalid, in the wording that users see.
    pub fn declare(&mut self, name: &str, source: &str) -> Result<Program, String> {
        let compiled = self.compile(source, Role::Variable);
        let of = compiled
            .as_ref()
            .map_or(Type::Dyn, |made| kept(made.output()));
        let field = Field {
            of,
            name: name.to_owned(),
        };
        let variables = self.variables.get_or_insert_with(BTreeMap::new);
        variables.insert(name.to_owned(), field);
        compiled
    }

    /// Compiles an expression that has been validated before.
    pub(crate) fn expression(&self, source: &str, role: Role) -> Expression {
        Expression::new(source, self.compile(source, role))
    }

    /// Compiles a variable that has been validated before.
    pub(crate) fn variable(&mut self, name: &str, source: &str) -> Expression {
        let compiled = self.declare(name, source);
        Expression::new(source, compiled)
    }

    fn environment(&self, role: Role) -> Environment {
        let mut environment = BASE.clone();
        if self.params {
            environment = environment.with("params", Type::Dyn);
        }
        if role != Role::Message {
            let opaque = |name: &str| Type::Opaque(name.into());
            environment = environment
                .with("authorizer", opaque("kubernetes.authorization.Authorizer"))
                .with(
                    "authorizer.requestResource",
                    opaque("kubernetes.authorization.ResourceCheck"),
                );
        }
        if let Some(variables) = &self.variables {
            let of = ObjectType {
                name: "kubernetes.variables".to_owned(),
                fields: variables.clone(),
            };
            environment = environment.with("variables", Type::Object(Arc::new(of)));
        }
        if matches!(role, Role::Apply | Role::Patch) {
            environment = environment.with_mutation();
        }
        environment
    }
}

impl Role {
    /// The allowed result types; empty if any is allowed.
    fn results(self) -> &'static [Type] {
        static OBJECT: LazyLock<[Type; 1]> = LazyLock::new(|| [object("Object", &[])]);
        static PATCHES: LazyLock<[Type; 1]> =
            LazyLock::new(|| [Type::list(object("JSONPatch", &[]))]);
        match self {
            Self::Condition | Self::Validation => &[Type::Bool],
            Self::Message => &[Type::String],
            Self::Audit => &[Type::String, Type::Null],
            Self::Variable => &[],
            Self::Apply => &*OBJECT,
            Self::Patch => &*PATCHES,
        }
    }
}

/// The variables that all expressions can access.
static BASE: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("namespaceObject", namespace())
        .with("request", request())
});

fn request() -> Type {
    let text = || Type::String;
    let kind = object(
        "kubernetes.GroupVersionKind",
        &[("group", text()), ("version", text()), ("kind", text())],
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        &[("group", text()), ("version", text()), ("resource", text())],
    );
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", text()),
            ("uid", text()),
            ("groups", Type::list(text())),
            ("extra", Type::map(text(), Type::list(text()))),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", text()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace() -> Type {
    let text = || Type::String;
    let texts = || Type::list(Type::String);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", Type::map(text(), text())),
            ("annotations", Type::map(text(), text())),
            ("UID", text()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    let condition = object(
        "kubernetes.NamespaceCondition",
        &[
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", &[("finalizers", texts())]);
    let status = object(
        "kubernetes.NamespaceStatus",
        &[("conditions", Type::list(condition)), ("phase", text())],
    );
    object(
        "kubernetes.Namespace",
        &[("metadata", metadata), ("spec", spec), ("status", status)],
    )
}

fn object(name: &str, fields: &[(&str, Type)]) -> Type {
    Type::Object(Arc::new(object_type(name, fields)))
}

fn object_type(name: &str, fields: &[(&str, Type)]) -> ObjectType {
    let field = |(name, of): &(&str, Type)| {
        let field = Field {
            of: of.clone(),
            name: (*name).to_owned(),
        };
        ((*name).to_owned(), field)
    };
    ObjectType {
        name: name.to_owned(),
        fields: fields.iter().map(field).collect(),
    }
}

/// The declared type of a variable's value. Object types and opaque library types become
/// dynamic.
fn kept(of: &Type) -> Type {
    match of {
        Type::List(of) => Type::list(kept(of)),
        Type::Map(key, value) => Type::map(kept(key), kept(value)),
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => of.clone(),
        _ => Type::Dyn,
    }
}

/// The name of a type as Go prints it, which differs from the type checker's.
fn name(of: &Type) -> String {
    match of {
        Type::List(of) => format!("list({})", name(of)),
        Type::Map(key, value) => format!("map({}, {})", name(key), name(value)),
        Type::Optional(of) => format!("optional_type({})", name(of)),
        Type::Meta(of) => format!("type({})", name(of)),
        simple => simple.name().to_owned(),
    }
}
