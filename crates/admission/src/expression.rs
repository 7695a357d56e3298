//! Expressions of admission, compiled: which variables each sort of them sees, and what it
//! must come to.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use insula_cel::{Environment, Field, ObjectType, Plan, Program, Type};

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whether a webhook or a policy applies.
    Condition,
    /// Whether a request is as it should be.
    Validation,
    /// What a denial says.
    Message,
    /// What an audit event says.
    Audit,
    /// A value that later expressions name.
    Variable,
    /// What an object should have.
    Apply,
    /// How an object is to be patched.
    Patch,
}

/// An expression that can be evaluated, or why it cannot.
#[derive(Debug)]
pub(crate) struct Expression {
    /// As it was written.
    pub source: String,
    /// How it is evaluated.
    pub plan: Result<Plan, String>,
    /// How deep it is.
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
    /// The types of variables; none if there cannot be any.
    variables: Option<BTreeMap<String, Field>>,
}

impl Compiler {
    /// For expressions that see parameters, or do not.
    pub fn new(params: bool) -> Self {
        Self {
            params,
            variables: None,
        }
    }

    /// For expressions that see variables, too, once they are declared.
    #[must_use]
    pub fn composed(self) -> Self {
        Self {
            variables: Some(BTreeMap::new()),
            ..self
        }
    }

    /// Compiles it.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as users are told.
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

    /// Compiles a variable, and lets what follows name it, whether that went well or not.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as users are told.
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

    /// An expression that was accepted once.
    pub(crate) fn expression(&self, source: &str, role: Role) -> Expression {
        Expression::new(source, self.compile(source, role))
    }

    /// A variable that was accepted once.
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
    /// What it may come to; nothing if anything will do.
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

/// What every expression sees.
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

/// The type as which a variable's value is known: what has fields of its own, or is of a
/// library, is anything.
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

/// As Go prints a type: other than the checker does.
fn name(of: &Type) -> String {
    match of {
        Type::List(of) => format!("list({})", name(of)),
        Type::Map(key, value) => format!("map({}, {})", name(key), name(value)),
        Type::Optional(of) => format!("optional_type({})", name(of)),
        Type::Meta(of) => format!("type({})", name(of)),
        simple => simple.name().to_owned(),
    }
}
