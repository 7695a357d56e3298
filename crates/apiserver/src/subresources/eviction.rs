//! The `eviction` subresource of pods: deletion as far as disruption budgets allow.

use insula_admission::Operation;
use insula_kinds::selector::LabelSelector;
use insula_kinds::{Kind, Object, Value, kinds, time, types};
use serde_json::json;

use super::pod::{created_status, pod_of};
use crate::codec::answer::Answer;
use crate::codec::input::{self, Expected, Sent};
use crate::pipeline::authorize::Caller;
use crate::registry::Address;
use crate::registry::Registry;
use crate::request::negotiate::{Accepted, Media};
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};
use crate::write::admission::node_restriction;
use crate::write::admission::webhooks::{self, Attributes, BodyKind};
use crate::write::{DeleteOptions, ManagedFields, Modified, Modify, modify, remove};

/// The most evictions that the disruption controller may not have processed yet.
const MAX_DISRUPTED_PODS: usize = 2000;

/// Deletes a pod unless a disruption budget forbids it.
pub async fn evict(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Answer> {
    let options = WriteOptions::read(query, "CreateOptions")?;
    let mut written = input::read(sent, expected(), options.validation)?;
    let address = pod_of(caller, &written.object)?;
    let attributes = Attributes::new(registry, caller, Operation::Create, &address.kind, &address);
    let attributes = attributes.for_subresource("eviction", BodyKind::EVICTION, options.dry_run);
    webhooks::admit(&attributes, &mut written.object).await?;
    let mut delete = match written.object.get("deleteOptions") {
        Some(Value::Object(inner)) => DeleteOptions::read(
            &Query::default(),
            &Sent {
                media: Media::Json,
                body: Value::Object(inner.clone()).to_string().into(),
            },
        )?,
        _ => DeleteOptions::default(),
    };
    delete.dry_run |= options.dry_run;
    let found = registry.fresh(&address).await?;
    let pod = found.ok_or_else(|| StatusError::not_found(address.of(), &address.name))?;
    // It is this pod that is evicted, and not a later one of its name.
    delete.limit_to(&pod);
    let pod = pod.tree();
    node_restriction::check_eviction(caller, &address, &pod)?;
    if !needs_no_budget(&pod)
        && let Some(budget) = budget_of(registry, &address, &pod)?
    {
        charge_budget(registry, &budget, &address, is_ready(&pod), delete.dry_run).await?;
    }
    if !delete.dry_run {
        set_disruption_condition(registry, &address).await?;
    }
    remove(registry, address.of(), &address, &delete).await?;
    Ok(created_status(accepted).warned(written.warnings))
}

fn expected() -> Expected<'static> {
    Expected {
        group: "policy",
        api_version: "policy/v1",
        kind: "Eviction",
        of: types()
            .find("api.policy.v1.Eviction")
            .expect("it is in the table"),
    }
}

/// Whether evicting a pod needs no budget: it is not running, or is being deleted.
fn needs_no_budget(pod: &Object) -> bool {
    let phase = member(pod, "status", "phase").and_then(Value::as_str);
    matches!(phase, Some("Pending" | "Succeeded" | "Failed") | None)
        || member(pod, "metadata", "deletionTimestamp").is_some()
}

fn is_ready(pod: &Object) -> bool {
    let conditions = member(pod, "status", "conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Returns the budget that selects the pod; more than one is an error.
fn budget_of(registry: &Registry, pod: &Address, object: &Object) -> Result<Option<Address>> {
    let kind = kinds().find("policy", "v1", "poddisruptionbudgets");
    let kind = kind.ok_or_else(|| StatusError::internal("budgets are not in the table"))?;
    let Some(budgets) = registry.cache().find(kind, &pod.space) else {
        return Ok(None);
    };
    let prefix = format!("{}/", pod.namespace.as_deref().unwrap_or(""));
    let labels = member(object, "metadata", "labels").and_then(Value::as_object);
    let mut chosen = Vec::new();
    for budget in budgets.snapshot(&prefix, None).objects {
        let tree = budget.tree();
        let selector = member(&tree, "spec", "selector").and_then(Value::as_object);
        let selector = selector.and_then(|selector| LabelSelector::from_object(selector).ok());
        if selector.is_some_and(|selector| selector.matches_labels(labels)) {
            chosen.push(budget.name().to_owned());
        }
    }
    if chosen.len() > 1 {
        return Err(StatusError::plain_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does \
             not support.",
        ));
    }
    Ok(chosen.pop().map(|name| Address {
        kind: kind.into(),
        space: pod.space.clone(),
        namespace: pod.namespace.clone(),
        name,
    }))
}

/// Takes one disruption from a budget. It is committed before the pod is deleted, so that
/// concurrent evictions cannot use the same disruption.
async fn charge_budget(
    registry: &Registry,
    budget: &Address,
    pod: &Address,
    ready: bool,
    dry_run: bool,
) -> Result<()> {
    let request = Modify {
        kind: &budget.kind,
        address: budget,
        subresource: Some("status"),
        full_update: false,
        dry_run,
        caller: None,
        managed_fields: ManagedFields::Update,
        leaves_managed_fields: false,
    };
    // A budget that was deleted meanwhile allows the eviction.
    modify(registry, request, |current| {
        let mut object = current.clone();
        if ready || !allows_unready(current) {
            check(budget.of(), budget, current)?;
            record_disruption(&mut object, &pod.name);
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    })
    .await?;
    Ok(())
}

/// Whether pods that are not ready may be evicted without a disruption.
fn allows_unready(budget: &Object) -> bool {
    let policy = member(budget, "spec", "unhealthyPodEvictionPolicy").and_then(Value::as_str);
    let (healthy, desired) = (
        number(budget, "currentHealthy"),
        number(budget, "desiredHealthy"),
    );
    policy == Some("AlwaysAllow") || (healthy >= desired && desired > 0)
}

fn check(kind: &Kind, address: &Address, budget: &Object) -> Result<()> {
    let name = &address.name;
    let refuse = |cause: &str| {
        let why = "Cannot evict pod as it would violate the pod's disruption budget.";
        StatusError::too_many(why).cause("DisruptionBudget", cause, "")
    };
    let generation = member(budget, "metadata", "generation").and_then(Value::as_i64);
    if number(budget, "observedGeneration") < generation.unwrap_or(0) {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refuse(&cause).retry_after(10));
    }
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return Err(StatusError::not_allowed(kind, name, why));
    }
    let disrupted = member(budget, "status", "disruptedPods").and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(StatusError::not_allowed(kind, name, why));
    }
    if allowed == 0 {
        return Err(refuse(&format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number(budget, "desiredHealthy"),
            number(budget, "currentHealthy"),
        )));
    }
    Ok(())
}

/// Decrements the allowed disruptions, and records the pod.
fn record_disruption(budget: &mut Object, pod: &str) {
    let left = number(budget, "disruptionsAllowed") - 1;
    let generation = member(budget, "metadata", "generation").cloned();
    let status = budget.entry("status").or_insert_with(|| json!({}));
    status["disruptionsAllowed"] = left.into();
    status["disruptedPods"][pod] = time::now().into();
    if left == 0 {
        let condition = json!({
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": generation,
        });
        set_condition(status, condition);
    }
}

/// Sets the condition `DisruptionTarget` of the pod.
async fn set_disruption_condition(registry: &Registry, pod: &Address) -> Result<()> {
    let request = Modify {
        kind: &pod.kind,
        address: pod,
        subresource: Some("status"),
        full_update: false,
        dry_run: false,
        caller: None,
        managed_fields: ManagedFields::Preset,
        leaves_managed_fields: false,
    };
    modify(registry, request, |current| {
        let mut object = current.clone();
        let status = object.entry("status").or_insert_with(|| json!({}));
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        set_condition(status, condition);
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    })
    .await?;
    Ok(())
}

/// Sets a condition; it keeps the time of its last change if its status does not change.
fn set_condition(status: &mut Value, mut condition: Value) {
    condition["lastTransitionTime"] = time::now().into();
    let conditions = match &mut status["conditions"] {
        Value::Array(conditions) => conditions,
        other => {
            *other = json!([condition]);
            return;
        }
    };
    let known = conditions
        .iter_mut()
        .find(|known| known["type"] == condition["type"]);
    match known {
        Some(known) if known["status"] == condition["status"] => {}
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

fn member<'a>(object: &'a Object, part: &str, name: &str) -> Option<&'a Value> {
    object.get(part)?.get(name)
}

fn number(budget: &Object, name: &str) -> i64 {
    let number = member(budget, "status", name).and_then(Value::as_i64);
    number.unwrap_or(0)
}
