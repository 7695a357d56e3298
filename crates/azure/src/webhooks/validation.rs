//! Validation of objects, the same for all kinds.

use std::collections::BTreeSet;

use insula_operator::webhook::AdmissionRequest;
use serde_json::Value;

use super::defaults::required_name;
use crate::mapping::export::{Expressions, limits};
use crate::mapping::needs::is_arm_id;
use crate::mapping::{self, Reference};
use crate::names::RESOURCE_ID;
use crate::table::{Kind, Owner, Scope, Version};

/// Returns the problems of an object that is created or updated.
pub(super) fn problems(
    kind: &Kind,
    version: &Version,
    request: &AdmissionRequest,
    expressions: Option<&dyn Expressions>,
) -> Vec<String> {
    let Some(object) = &request.object else {
        return Vec::new();
    };
    // Finalizers are removed from an object that is being deleted, whatever its fields are.
    let is_deleted = object["metadata"]["deletionTimestamp"].is_string();
    let old = request.old_object.as_ref();
    // An object that is older than a rule can still be labelled and released.
    let is_unchanged = old.is_some_and(|old| old["spec"] == object["spec"]);
    if is_deleted || is_unchanged {
        return Vec::new();
    }
    let mut problems = Vec::new();
    problems.extend(malformed_field(kind, version, object));
    problems.extend(invalid_owner(kind, object));
    problems.extend(wrong_name(kind, object));
    if let Err(error) = limits::check(object) {
        // The other rules would have to go through all of them.
        problems.push(error.to_string());
        return problems;
    }
    problems.extend(colliding_exports(object));
    problems.extend(invalid_expressions(object, expressions));
    if let Some(old) = old {
        problems.extend(changed_identity(old, object));
    }
    problems
}

/// Returns the first reference that is malformed, or value that is given twice.
fn malformed_field(kind: &Kind, version: &Version, object: &Value) -> Option<String> {
    let mut named = object.clone();
    if named["spec"]["azureName"]
        .as_str()
        .is_none_or(str::is_empty)
        && !named["spec"]["azureNameFromConfig"].is_object()
    {
        // The name is set by the other webhook, or refused by the reconciler.
        named["spec"]["azureName"] = "-".into();
    }
    let needs = mapping::needs(kind, version, &named);
    needs.err().map(|error| error.to_string())
}

/// Returns what is wrong with a name that another field decides. Names in Azure have no case.
fn wrong_name(kind: &Kind, object: &Value) -> Option<String> {
    let spec = &object["spec"];
    let required = required_name(kind, spec)?;
    let given = spec["azureName"].as_str().unwrap_or_default();
    let is_wrong = !given.is_empty() && !given.eq_ignore_ascii_case(required);
    is_wrong.then(|| format!("spec.azureName: must be {required:?} here, but is {given:?}"))
}

/// Returns what is wrong with the owner.
fn invalid_owner(kind: &Kind, object: &Value) -> Option<String> {
    let id = match mapping::owner(kind, object) {
        Err(error) => return Some(error.to_string()),
        Ok(Some(Reference::Id(id))) => id,
        Ok(_) => return None,
    };
    if !is_arm_id(&id) {
        return Some(format!("spec.owner.armId: {id:?} is no ARM id"));
    }
    let expected = expected_owner(kind)?;
    let given = arm_type(&id);
    let is_expected = given.eq_ignore_ascii_case(&expected);
    (!is_expected).then(|| {
        format!("spec.owner.armId: expected the id of a {expected}, but it is one of a {given}")
    })
}

/// Returns the ARM type of the owner; none if any type is possible.
fn expected_owner(kind: &Kind) -> Option<String> {
    if *kind.owner() == Owner::Any || kind.scope() == Scope::Extension {
        return None;
    }
    let (parent, _) = kind.arm_type().rsplit_once('/')?;
    if parent.contains('/') {
        return Some(parent.to_owned());
    }
    (kind.scope() == Scope::ResourceGroup).then(|| "Microsoft.Resources/resourceGroups".to_owned())
}

/// Returns the type of the resource that an ARM id names.
fn arm_type(id: &str) -> String {
    let lower = id.to_ascii_lowercase();
    let Some(at) = lower.rfind("/providers/") else {
        let is_group = lower.contains("/resourcegroups/");
        let name = if is_group {
            "resourceGroups"
        } else {
            "subscriptions"
        };
        return format!("Microsoft.Resources/{name}");
    };
    let mut parts = id[at + "/providers/".len()..].split('/');
    let mut found = parts.next().unwrap_or_default().to_owned();
    for name in parts.step_by(2) {
        found = format!("{found}/{name}");
    }
    found
}

/// Returns the destinations that get two values.
fn colliding_exports(object: &Value) -> Vec<String> {
    let operator = &object["spec"]["operatorSpec"];
    let mut problems = Vec::new();
    for (target, fields, expressions) in [
        ("Secret", "secrets", "secretExpressions"),
        ("ConfigMap", "configMaps", "configMapExpressions"),
    ] {
        let fields = operator[fields].as_object().into_iter().flatten();
        let fields = fields.map(|(_, destination)| destination);
        let expressions = operator[expressions].as_array().into_iter().flatten();
        let mut seen = BTreeSet::new();
        for destination in fields.chain(expressions) {
            let member = |name: &str| destination[name].as_str().unwrap_or_default();
            let (name, key) = (member("name"), member("key"));
            // The keys of an expression's map are known when it is evaluated.
            if !key.is_empty() && !seen.insert((name, key)) {
                problems.push(format!(
                    "spec.operatorSpec: two values have the key {key:?} of the {target} {name:?}"
                ));
            }
        }
    }
    problems
}

fn invalid_expressions(object: &Value, expressions: Option<&dyn Expressions>) -> Vec<String> {
    let Some(expressions) = expressions else {
        return Vec::new();
    };
    let operator = &object["spec"]["operatorSpec"];
    let mut problems = Vec::new();
    for list in ["secretExpressions", "configMapExpressions"] {
        let entries = operator[list].as_array().into_iter().flatten();
        for expression in entries.filter_map(|entry| entry["value"].as_str()) {
            let problem = match expressions.secrets_used(expression) {
                Err(message) => message,
                Ok(used) if list == "configMapExpressions" && !used.is_empty() => {
                    "a ConfigMap cannot have secrets".to_owned()
                }
                Ok(_) => continue,
            };
            problems.push(format!(
                "spec.operatorSpec.{list}: {expression:?}: {problem}"
            ));
        }
    }
    problems
}

/// Returns the fields of the ARM id that an update changes after the id was assigned.
fn changed_identity(old: &Value, new: &Value) -> Vec<String> {
    let has_id = |object: &Value| {
        let id = object["metadata"]["annotations"][RESOURCE_ID].as_str();
        id.is_some_and(|id| !id.is_empty())
    };
    // A client that removes the annotation does not get another resource.
    if !has_id(old) && !has_id(new) {
        return Vec::new();
    }
    let text = |object: &Value, pointer: &str| {
        let text = object["spec"].pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let mut problems = Vec::new();
    let name = text(old, "/azureName");
    if !name.is_empty() && name != text(new, "/azureName") {
        let created = "cannot change after the resource was created";
        problems.push(format!("spec.azureName: {created}"));
    }
    for member in ["group", "kind", "name", "armId"] {
        let pointer = format!("/owner/{member}");
        if text(old, &pointer) != text(new, &pointer) {
            problems.push(format!(
                "spec.owner.{member}: cannot change after the resource was created"
            ));
        }
    }
    problems
}
