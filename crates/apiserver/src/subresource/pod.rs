//! What a scheduler and a drain do to pods.

use http::StatusCode;
use insula_kinds::selector::LabelSelector;
use insula_kinds::{Kind, Object, Value, kinds, prepare, time, types};
use serde_json::json;

use crate::authorize::Granted;
use crate::intake::{self, Expected, Sent};
use crate::negotiate::Accepted;
use crate::query::{Query, WriteOptions};
use crate::registry::{Address, core_kind};
use crate::request::{Answer, App};
use crate::status::{Refusal, Result};
use crate::view::View;
use crate::write::{DeleteOptions, Modified, Modify, modify, remove};

/// Says where a pod runs.
pub async fn bind(
    app: &App,
    granted: &Granted,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Answer> {
    let options = WriteOptions::read(query, "CreateOptions")?;
    let binding = kinds().get(core_kind("bindings"));
    let written = intake::read(sent, binding.into(), options.validation)?;
    let address = pod_of(granted, &written.object)?;
    let target = written.object.get("target").and_then(|target| target.get("name"));
    if target.and_then(Value::as_str).unwrap_or("").is_empty() {
        let error = insula_kinds::FieldError::required("target.name", "");
        return Err(Refusal::invalid(binding, &address.name, &[error]));
    }
    let request = Modify {
        kind: address.of(),
        address: &address,
        subresource: Some("binding"),
        whole: false,
        dry_run: options.dry_run,
    };
    let done = modify(&app.registry, request, |pod| {
        let node = pod.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str);
        if let Some(node) = node.filter(|node| !node.is_empty()) {
            let name = &address.name;
            let why = format!("pod {name} is already assigned to node \"{node}\"");
            return Err(Refusal::conflict_below(address.of(), "binding", name, &why));
        }
        let mut pod = pod.clone();
        prepare::bind(&mut pod, &written.object, &time::now());
        Ok(Modified { object: pod, warnings: Vec::new() })
    })
    .await?;
    done.ok_or_else(|| Refusal::not_found(address.of(), &address.name))?;
    Ok(succeeded(accepted).warned(written.warnings))
}

/// Deletes a pod unless a disruption budget forbids it.
pub async fn evict(
    app: &App,
    granted: &Granted,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Answer> {
    let options = WriteOptions::read(query, "CreateOptions")?;
    let of = types().find("api.policy.v1.Eviction").expect("it is in the table");
    let expected =
        Expected { group: "policy", api_version: "policy/v1", kind: "Eviction", of };
    let written = intake::read(sent, expected, options.validation)?;
    let address = pod_of(granted, &written.object)?;
    let found = app.registry.fresh(&address).await?;
    let pod = found.ok_or_else(|| Refusal::not_found(address.of(), &address.name))?;
    check_budgets(app, &address, &pod.tree())?;
    let delete = match written.object.get("deleteOptions") {
        Some(Value::Object(inner)) => {
            let body = serde_json::to_vec(inner).unwrap_or_default().into();
            DeleteOptions::read(query, &Sent { media: crate::negotiate::Media::Json, body })?
        }
        _ => DeleteOptions { dry_run: options.dry_run, ..DeleteOptions::default() },
    };
    remove(&app.registry, address.of(), &address, &delete).await?;
    Ok(succeeded(accepted).warned(written.warnings))
}

/// The budgets that select the pod must allow one less.
fn check_budgets(app: &App, address: &Address, pod: &Object) -> Result<()> {
    let phase = pod.get("status").and_then(|status| status.get("phase")).and_then(Value::as_str);
    if matches!(phase, Some("Pending" | "Succeeded" | "Failed") | None) {
        return Ok(());
    }
    let kind = kinds().find("policy", "v1", "poddisruptionbudgets");
    let kind = kind.ok_or_else(|| Refusal::internal("budgets are not in the table"))?;
    let Some(budgets) = app.registry.cache().find(kind, &address.space) else {
        return Ok(());
    };
    let prefix = format!("{}/", address.namespace.as_deref().unwrap_or(""));
    let labels = pod.get("metadata").and_then(|of| of.get("labels")).and_then(Value::as_object);
    for budget in budgets.snapshot(&prefix, None).objects {
        let tree = budget.tree();
        let selector = tree.get("spec").and_then(|spec| spec.get("selector")?.as_object());
        let chosen = selector.and_then(|selector| LabelSelector::from_object(selector).ok());
        if !chosen.is_some_and(|chosen| chosen.matches_labels(labels)) {
            continue;
        }
        let status = |member: &str| tree.get("status").and_then(|status| status.get(member)?.as_i64());
        if status("disruptionsAllowed").unwrap_or(0) <= 0 {
            let cause = format!(
                "The disruption budget {} needs {} healthy pods and has {} currently",
                budget.name(),
                status("desiredHealthy").unwrap_or(0),
                status("currentHealthy").unwrap_or(0),
            );
            let why = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(Refusal::too_many(why).cause("DisruptionBudget", &cause, ""));
        }
    }
    Ok(())
}

/// The pod that the path names, or what is below `bindings` names.
fn pod_of(granted: &Granted, object: &Object) -> Result<Address> {
    let path = granted.path();
    let given = object.get("metadata").and_then(|of| of.get("name")).and_then(Value::as_str);
    let name = match (&path.name, given.filter(|given| !given.is_empty())) {
        (Some(name), Some(given)) if name != given => {
            let of = if path.subresource.as_deref() == Some("eviction") { "Eviction" } else { "Binding" };
            let why = format!("name in URL does not match name in {of} object");
            return Err(Refusal::bad_request(why));
        }
        (Some(name), _) => name.clone(),
        (None, Some(given)) => given.to_owned(),
        (None, None) => return Err(Refusal::bad_request("name must be provided")),
    };
    Ok(Address {
        kind: core_kind("pods"),
        space: granted.space()?.clone(),
        namespace: path.namespace.clone(),
        name,
    })
}

fn succeeded(accepted: Accepted) -> Answer {
    let view = View::of_status(accepted);
    let status = json!({"metadata": {}, "status": "Success", "code": 201});
    let body = view.status_of(&status);
    Answer::new(StatusCode::CREATED, body).of(accepted)
}

/// A pod's kind.
pub fn pods() -> &'static Kind {
    kinds().get(core_kind("pods"))
}
