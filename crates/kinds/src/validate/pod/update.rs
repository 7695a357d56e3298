//! Updates of existing pods.

use serde_json::{Map, Value};

use super::{annotations, metadata_and_spec};
use crate::text;
use crate::validate::check::{self, Errors};
use crate::validate::tree::Node;

const IMMUTABLE_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates an update of a pod.
pub(in crate::validate) fn update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    metadata_and_spec(new, errors);
    let (old, new) = (old.get("spec"), new.get("spec"));
    for list in ["containers", "initContainers"] {
        if !same_containers(&old.get(list), &new.get(list), errors) {
            return;
        }
    }
    if !deadline(&old, &new, errors) {
        return;
    }
    tolerations(&old.get("tolerations"), &new.get("tolerations"), errors);
    scheduling_gates(
        &old.get("schedulingGates"),
        &new.get("schedulingGates"),
        errors,
    );
    let (Some(before), Some(after)) = (old.object(), new.object()) else {
        return;
    };
    let allowed = with_old_mutable_fields(before, after);
    let changed = super::super::tree::differences(before, &allowed);
    if !changed.is_empty() {
        errors.push(new.immutable(IMMUTABLE_FIELDS, &changed));
    }
}

fn same_containers(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) -> bool {
    if old.list().len() != new.list().len() {
        errors.push(new.forbidden("pod updates may not add or remove containers"));
        return false;
    }
    for container in new.items() {
        check::required(&container.get("image"), errors);
        super::trimmed_image(&container, errors);
    }
    true
}

fn deadline(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) -> bool {
    let node = new.get("activeDeadlineSeconds");
    let (old, new) = (old.get("activeDeadlineSeconds").int(), node.int());
    match (old, new) {
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.push(node.invalid(&text::range(0, i64::from(i32::MAX))));
            false
        }
        (Some(old), Some(new)) if old < new => {
            errors.push(node.invalid("must be less than or equal to previous value"));
            false
        }
        (Some(_), None) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(node.invalid(detail));
            true
        }
        _ => true,
    }
}

fn tolerations(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Value::Object(members) = &mut toleration {
            members.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: Vec<_> = new.list().iter().map(without_seconds).collect();
    for toleration in old.list() {
        if !kept.contains(&without_seconds(toleration)) {
            let detail = "existing toleration can not be modified except its tolerationSeconds";
            errors.push(new.forbidden(detail));
            return;
        }
    }
    super::scheduling::tolerations(new, errors);
}

fn scheduling_gates(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    for gate in new.items() {
        let name = gate.get("name");
        if !old.items().any(|old| old.get("name").text() == name.text()) {
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            errors.push(name.forbidden(&detail));
        }
    }
}

/// Returns the new spec with the old values of all mutable fields.
fn with_old_mutable_fields(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Map<String, Value> {
    let mut mixed = new.clone();
    let mut restore = |field: &str| match old.get(field) {
        Some(value) => {
            mixed.insert(field.to_owned(), value.clone());
        }
        None => {
            mixed.remove(field);
        }
    };
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(field);
    }
    let grace = "terminationGracePeriodSeconds";
    let seconds = |of: &Map<String, Value>| of.get(grace).and_then(Value::as_i64);
    if seconds(old).is_some_and(|seconds| seconds < 0) && seconds(new) == Some(1) {
        restore(grace);
    }
    // A pod with scheduling gates may still change where it runs.
    if old
        .get("schedulingGates")
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty())
    {
        restore("nodeSelector");
        restore("affinity");
    }
    for list in ["containers", "initContainers"] {
        restore_images(old.get(list), mixed.get_mut(list));
    }
    mixed
}

fn restore_images(old: Option<&Value>, new: Option<&mut Value>) {
    let (Some(Value::Array(old)), Some(Value::Array(new))) = (old, new) else {
        return;
    };
    for (old, new) in old.iter().zip(new) {
        if let (Some(image), Value::Object(new)) = (old.get("image"), new) {
            new.insert("image".to_owned(), image.clone());
        }
    }
}

/// Validates an update of a pod's status.
pub(in crate::validate) fn status(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (before, after) = (old.get("status"), new.get("status"));
    for condition in after.get("conditions").items() {
        let generation = condition.get("observedGeneration");
        if generation.int().is_some_and(|number| number < 0) {
            errors.push(generation.invalid("must be a non-negative integer"));
        }
        let kind = condition.get("type").at(condition.path.field("Type"));
        check::format(&kind, text::qualified_name, errors);
    }
    let node = |of: &Node<'_>| of.get("spec").get("nodeName").text().to_owned();
    if node(old) != node(new) {
        errors.push(
            after
                .get("nodeName")
                .forbidden("may not be changed directly"),
        );
    }
    let nominated = after.get("nominatedNodeName");
    if nominated.text() != before.get("nominatedNodeName").text() {
        check::format_if_set(&nominated, text::dns_subdomain, errors);
    }
}

/// Validates the addition of ephemeral containers.
pub(in crate::validate) fn ephemeral_containers(
    old: &Node<'_>,
    new: &Node<'_>,
    errors: &mut Errors,
) {
    metadata_and_spec(new, errors);
    annotations(
        &new.get("metadata").get("annotations"),
        &new.get("spec"),
        errors,
    );
    let place = new.get("spec").get("ephemeralContainers");
    for container in old.get("spec").get("ephemeralContainers").items() {
        let name = container.get("name").text();
        let quoted = insula_gotext::quote(name);
        match place.items().find(|new| new.get("name").text() == name) {
            None => {
                let detail = format!("existing ephemeral containers {quoted} may not be removed\n");
                errors.push(place.forbidden(&detail));
            }
            Some(new) if !new.same(&container) => {
                let detail = format!("existing ephemeral containers {quoted} may not be changed\n");
                errors.push(place.forbidden(&detail));
            }
            Some(_) => {}
        }
    }
}

const RESIZE: &str = "only cpu and memory resources are mutable";

/// Validates a resize of containers.
pub(in crate::validate) fn resize(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    metadata_and_spec(new, errors);
    let (before, after) = (old.get("spec"), new.get("spec"));
    if qos_class(&before) != qos_class(&after) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        let shown = new.get("status").get("qosClass").text();
        errors.push(after.invalid_as(&shown.into(), detail));
    }
    if !same_order(&before, &after, errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (old, new) in before.get(list).items().zip(after.get(list).items()) {
            nothing_removed(&old.get("resources"), &new.get("resources"), errors);
        }
    }
    let without = |spec: &Node<'_>| {
        let mut spec = spec.object().cloned().unwrap_or_default();
        for list in ["initContainers", "containers"] {
            drop_resources(spec.get_mut(list));
        }
        spec.remove("resources");
        Value::Object(spec)
    };
    if !super::super::tree::same(&without(&before), &without(&after)) {
        errors.push(after.forbidden(RESIZE));
    }
}

fn same_order(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) -> bool {
    let before = errors.len();
    for list in ["containers", "initContainers"] {
        let (old, new) = (old.get(list), new.get(list));
        if old.list().len() != new.list().len() {
            let detail = format!("{list} may not be added or removed on resize");
            errors.push(new.forbidden(&detail));
            continue;
        }
        for (old, new) in old.items().zip(new.items()) {
            if old.get("name").text() != new.get("name").text() {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.push(new.get("name").forbidden(&detail));
            }
        }
    }
    errors.len() == before
}

fn nothing_removed(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    for list in ["requests", "limits"] {
        let new = new.get(list);
        if old
            .get(list)
            .entries()
            .any(|(name, _)| !new.entry(name).is_set())
        {
            errors.push(new.forbidden(&format!("resource {list} cannot be removed")));
        }
    }
}

fn drop_resources(containers: Option<&mut Value>) {
    let Some(Value::Array(containers)) = containers else {
        return;
    };
    for container in containers {
        for list in ["requests", "limits"] {
            let of = container.pointer_mut(&format!("/resources/{list}"));
            if let Some(Value::Object(resources)) = of {
                resources.remove("cpu");
                resources.remove("memory");
            }
        }
    }
}

/// Returns the QoS class: guaranteed if the limits of all containers equal their
/// requests.
fn qos_class(spec: &Node<'_>) -> &'static str {
    let (mut any, mut guaranteed) = (false, true);
    for list in ["containers", "initContainers"] {
        for container in spec.get(list).items() {
            let resources = container.get("resources");
            let (requests, limits) = (resources.get("requests"), resources.get("limits"));
            for name in ["cpu", "memory"] {
                let (request, limit) = (requests.get(name), limits.get(name));
                any |= request.is_set() || limit.is_set();
                guaranteed &= limit.is_set() && (!request.is_set() || request.same(&limit));
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
