//! Default values for unset fields.
//!
//! Kubernetes defaults by type, not by kind: a container is defaulted alike in a Pod and
//! in the template of a CronJob. The rules are therefore tables keyed by type name, and
//! one walk over the object applies them wherever a value of that type occurs. Types
//! without a rule at or below them are never visited.

mod image;
mod network;
mod pod;
mod policy;
mod resources;
mod storage;
pub(crate) mod tree;
mod workload;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;

use crate::Object;
use crate::kind::Kind;
use crate::types::{Field, Omit, Shape, Type, TypeId, types};

pub(crate) use network::is_externally_reachable;
pub(crate) use workload::default_job_labels;

static PLANS: LazyLock<Plans> = LazyLock::new(Plans::build);

/// Sets every unset field of the object that has a default.
///
/// Kubernetes does this whenever it decodes an object, so it is idempotent.
pub fn apply(kind: &Kind, object: &mut Object) {
    apply_type(kind.type_id(), object);
}

/// Like [`apply`], for a type that is not a kind, such as the body of a subresource.
pub fn apply_type(of: TypeId, object: &mut Object) {
    if let Some(plan) = PLANS.by_type.get(&of) {
        PLANS.run(*plan, object);
    }
}

/// A defaulting rule for all values of one type.
#[derive(Clone, Copy)]
struct Rule {
    of: &'static str,
    set: &'static [(&'static str, &'static str)],
    run: Option<fn(&mut Object)>,
}

impl Rule {
    /// Sets fields to constant JSON values if they are unset.
    const fn set(of: &'static str, set: &'static [(&'static str, &'static str)]) -> Self {
        Self { of, set, run: None }
    }

    /// Runs a function that depends on other fields, after all constants are set.
    const fn run(of: &'static str, run: fn(&mut Object)) -> Self {
        Self {
            of,
            set: &[],
            run: Some(run),
        }
    }
}

fn rules() -> impl Iterator<Item = &'static Rule> {
    let areas = [
        pod::RULES,
        workload::RULES,
        network::RULES,
        storage::RULES,
        policy::RULES,
    ];
    areas.into_iter().flatten()
}

/// The defaulting plans of all types that have any.
struct Plans {
    plans: Vec<Plan>,
    by_type: HashMap<TypeId, usize>,
}

#[derive(Default)]
struct Plan {
    set: Vec<Constant>,
    run: Vec<fn(&mut Object)>,
    /// Maps of quantities to round.
    resources: Vec<&'static str>,
    /// Lists and maps that are written even if they are empty. Kubernetes stores
    /// protobuf, which has no empty lists, so `[]` is read back as `null`.
    null_if_empty: Vec<&'static str>,
    nested: Vec<NestedField>,
}

struct Constant {
    json: &'static str,
    value: Value,
    /// Whether zero counts as set.
    pointer: bool,
}

/// A field that holds values of a type with a plan.
struct NestedField {
    json: &'static str,
    nesting: Nesting,
    plan: usize,
}

#[derive(Clone, Copy)]
enum Nesting {
    /// A struct that is always present in Go, and so has defaults even if it is absent in
    /// JSON.
    Always,
    Optional,
    List,
    Map,
}

impl Plans {
    fn run(&self, plan: usize, object: &mut Object) {
        let plan = &self.plans[plan];
        for constant in &plan.set {
            if tree::is_unset(object, constant.json, constant.pointer) {
                object.insert(constant.json.to_owned(), constant.value.clone());
            }
        }
        for run in &plan.run {
            run(object);
        }
        for list in &plan.resources {
            resources::round(object, list);
        }
        for list in &plan.null_if_empty {
            if tree::is_empty(object, list) {
                object.remove(*list);
            }
        }
        for nested in &plan.nested {
            self.descend(nested, object);
        }
    }

    fn descend(&self, nested: &NestedField, object: &mut Object) {
        match (nested.nesting, object.get_mut(nested.json)) {
            (Nesting::Always | Nesting::Optional, Some(Value::Object(inner))) => {
                self.run(nested.plan, inner);
            }
            (Nesting::Always, None | Some(Value::Null)) => {
                let mut inner = Object::new();
                self.run(nested.plan, &mut inner);
                if !inner.is_empty() {
                    object.insert(nested.json.to_owned(), Value::Object(inner));
                }
            }
            (Nesting::List, Some(Value::Array(items))) => {
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    self.run(nested.plan, item);
                }
            }
            (Nesting::Map, Some(Value::Object(entries))) => {
                for entry in entries.values_mut().filter_map(Value::as_object_mut) {
                    self.run(nested.plan, entry);
                }
            }
            _ => {}
        }
    }

    fn build() -> Self {
        let own: HashMap<TypeId, Plan> = types()
            .iter()
            .map(|(id, _)| (id, own_plan(id)))
            .filter(|(_, plan)| !plan.is_empty())
            .collect();
        let reach = types_reaching(own.keys().copied().collect());
        let by_type: HashMap<TypeId, usize> = reach.iter().copied().zip(0..).collect();
        let mut own = own;
        let plans = reach
            .iter()
            .map(|id| {
                let mut plan = own.remove(id).unwrap_or_default();
                plan.nested = nested_fields(*id, &by_type);
                plan
            })
            .collect();
        Self { plans, by_type }
    }
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.set.is_empty()
            && self.run.is_empty()
            && self.resources.is_empty()
            && self.null_if_empty.is_empty()
    }
}

/// Builds the plan of the type itself, including the types that it inlines.
fn own_plan(id: TypeId) -> Plan {
    let of = types().get(id);
    let mut plan = Plan::default();
    for field in &of.fields {
        if let (Shape::Struct(inner), true) = (&field.shape, field.inline) {
            let inner = own_plan(*inner);
            plan.set.extend(inner.set);
            plan.run.extend(inner.run);
            plan.resources.extend(inner.resources);
            plan.null_if_empty.extend(inner.null_if_empty);
        }
        if resources::rounded(of.name, &field.shape) {
            plan.resources.push(field.json);
        }
        if null_if_empty(of, field) {
            plan.null_if_empty.push(field.json);
        }
        plan.set.extend(table_default(field));
    }
    for rule in rules().filter(|rule| rule.of == of.name) {
        plan.set.extend(rule.set.iter().map(|(json, value)| {
            let field = types().member(id, json).expect("rules name fields");
            constant(field, value)
        }));
        plan.run.extend(rule.run);
    }
    plan
}

/// Whether an empty list or map in the field becomes null. CustomResourceDefinitions and
/// APIServices are stored as JSON and keep their empty lists.
fn null_if_empty(of: &Type, field: &Field) -> bool {
    let listed = matches!(field.shape, Shape::List(_) | Shape::Map(_));
    listed && field.omit == Omit::Never && of.name.starts_with("api.")
}

/// Returns the default from the table of types, unless it is the zero value.
fn table_default(field: &Field) -> Option<Constant> {
    let table_default = constant(field, field.default?);
    let zero = tree::is_zero(&table_default.value) && !field.pointer;
    let object = table_default.value.is_object();
    (!zero && !object).then_some(table_default)
}

fn constant(field: &Field, json: &str) -> Constant {
    Constant {
        json: field.json,
        value: serde_json::from_str(json).expect("rules hold JSON"),
        pointer: field.pointer,
    }
}

/// Returns the types from which one of these can be reached, including themselves.
fn types_reaching(start: HashSet<TypeId>) -> Vec<TypeId> {
    let mut reach = start;
    loop {
        let more: Vec<TypeId> = types()
            .iter()
            .map(|(id, _)| id)
            .filter(|id| !reach.contains(id))
            .filter(|id| {
                let mut fields = types().members(*id);
                fields.any(|field| nested_type(field).is_some_and(|(of, _)| reach.contains(&of)))
            })
            .collect();
        if more.is_empty() {
            let mut reach: Vec<TypeId> = reach.into_iter().collect();
            reach.sort();
            return reach;
        }
        reach.extend(more);
    }
}

fn nested_fields(id: TypeId, by_type: &HashMap<TypeId, usize>) -> Vec<NestedField> {
    types()
        .members(id)
        .filter_map(|field| {
            let (of, nesting) = nested_type(field)?;
            Some(NestedField {
                json: field.json,
                nesting,
                plan: *by_type.get(&of)?,
            })
        })
        .collect()
}

fn nested_type(field: &Field) -> Option<(TypeId, Nesting)> {
    match &field.shape {
        Shape::Struct(of) if field.pointer => Some((*of, Nesting::Optional)),
        Shape::Struct(of) => Some((*of, Nesting::Always)),
        Shape::List(of) => match of.as_ref() {
            Shape::Struct(of) => Some((*of, Nesting::List)),
            _ => None,
        },
        Shape::Map(of) => match of.as_ref() {
            Shape::Struct(of) => Some((*of, Nesting::Map)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::kinds;

    #[test]
    fn every_rule_names_a_type_that_is_in_the_table() {
        for rule in rules() {
            assert!(types().find(rule.of).is_some(), "{}", rule.of);
        }
    }

    #[test]
    fn kinds_without_defaults_have_no_plan() {
        let find = |group, resource| kinds().get(kinds().find(group, "v1", resource).unwrap());
        let config_map = find("", "configmaps");
        assert!(!PLANS.by_type.contains_key(&config_map.type_id()));
        let lease = find("coordination.k8s.io", "leases");
        assert!(!PLANS.by_type.contains_key(&lease.type_id()));
        let pod = find("", "pods");
        assert!(PLANS.by_type.contains_key(&pod.type_id()));
    }
}
