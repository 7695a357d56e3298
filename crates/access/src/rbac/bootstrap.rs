//! The built-in roles and bindings of Kubernetes, which every space has.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::aggregate::{Aggregated, ByName, Roles};
use super::layer::Layer;
use super::object::{RbacKind, RbacObject};
use super::rule::Rule;

static TABLE: LazyLock<Table> = LazyLock::new(Table::load);

/// A built-in role or binding.
#[derive(Debug)]
pub struct BuiltIn {
    key: Box<str>,
    namespace: Option<Box<str>>,
    name: Box<str>,
    object: Map<String, Value>,
}

impl BuiltIn {
    /// Its key among objects of its kind: `name` or `namespace/name`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The object as served, without the fields that each space adds (uid, timestamps). An
    /// aggregated role has the rules that result when no other roles exist.
    pub const fn object(&self) -> &Map<String, Value> {
        &self.object
    }
}

/// All built-in objects of a kind, sorted by key.
pub fn objects(kind: RbacKind) -> &'static [BuiltIn] {
    TABLE.of(kind)
}

/// Looks up a built-in object by its key.
pub fn find(kind: RbacKind, key: &str) -> Option<&'static BuiltIn> {
    let objects = objects(kind);
    let place = objects.binary_search_by(|object| (*object.key).cmp(key));
    place.ok().map(|at| &objects[at])
}

/// All built-in objects as a policy layer.
pub(super) fn layer() -> &'static Layer {
    &TABLE.layer
}

/// The rules of built-in aggregated roles when no other roles exist.
pub(super) fn aggregated() -> &'static Aggregated {
    &TABLE.aggregated
}

struct Table {
    roles: Vec<BuiltIn>,
    cluster_roles: Vec<BuiltIn>,
    role_bindings: Vec<BuiltIn>,
    cluster_role_bindings: Vec<BuiltIn>,
    layer: Layer,
    aggregated: Aggregated,
}

impl Table {
    /// Loads the embedded table. The expectations below are proved by the tests, which load it.
    fn load() -> Self {
        let text = include_str!("../../data/bootstrap-rbac.json");
        let mut data: BTreeMap<String, Vec<Map<String, Value>>> =
            serde_json::from_str(text).expect("the table is generated");
        let mut layer = Layer::default();
        let mut read = |kind: RbacKind| -> Vec<BuiltIn> {
            let objects = data.remove(kind.resource()).unwrap_or_default();
            let objects = objects.into_iter().map(|object| {
                let (object, built_in) = read(kind, object);
                layer.put(object);
                built_in
            });
            let mut objects: Vec<_> = objects.collect();
            objects.sort_by(|one, other| one.key.cmp(&other.key));
            objects
        };
        let roles = read(RbacKind::Role);
        let mut cluster_roles = read(RbacKind::ClusterRole);
        let role_bindings = read(RbacKind::RoleBinding);
        let cluster_role_bindings = read(RbacKind::ClusterRoleBinding);
        let aggregated = Roles {
            own: &layer.cluster_roles,
            built_in: &ByName::new(),
        }
        .aggregate();
        for role in &mut cluster_roles {
            if let Some(rules) = aggregated.get(&role.name) {
                let rules: Vec<&Rule> = rules.iter().map(|rule| &**rule).collect();
                role.object.insert("rules".to_owned(), json!(rules));
            }
        }
        Self {
            roles,
            cluster_roles,
            role_bindings,
            cluster_role_bindings,
            layer,
            aggregated,
        }
    }

    fn of(&self, kind: RbacKind) -> &[BuiltIn] {
        match kind {
            RbacKind::Role => &self.roles,
            RbacKind::ClusterRole => &self.cluster_roles,
            RbacKind::RoleBinding => &self.role_bindings,
            RbacKind::ClusterRoleBinding => &self.cluster_role_bindings,
        }
    }
}

fn read(kind: RbacKind, mut object: Map<String, Value>) -> (RbacObject, BuiltIn) {
    object.insert("apiVersion".into(), "rbac.authorization.k8s.io/v1".into());
    object.insert("kind".into(), kind.as_str().into());
    let value = Value::Object(object.clone());
    let parsed = RbacObject::parse(kind, value.to_string().as_bytes());
    let parsed = parsed.expect("the table is generated");
    let name = parsed.name();
    let key = match parsed.namespace() {
        None => name.to_owned(),
        Some(namespace) => format!("{namespace}/{name}"),
    };
    let built_in = BuiltIn {
        key: key.into(),
        namespace: parsed.namespace.clone(),
        name: parsed.name.clone(),
        object,
    };
    (parsed, built_in)
}
