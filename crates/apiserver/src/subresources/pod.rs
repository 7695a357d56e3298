//! The `binding` subresource of pods, which schedulers write.

use http::StatusCode;
use insula_admission::Operation;
use insula_kinds::{Object, Value, kinds, prepare, time};
use serde_json::json;

use crate::codec::answer::Answer;
use crate::codec::input::{self, Sent};
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::registry::Address;
use crate::registry::Registry;
use crate::request::negotiate::Accepted;
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};
use crate::write::admission::webhooks::{self, Attributes, BodyKind};
use crate::write::{ManagedFields, Modified, Modify, modify};
use insula_kinds::core_kind;

/// Binds a pod to a node.
pub async fn bind(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Answer> {
    let options = WriteOptions::read(query, "CreateOptions")?;
    let binding = kinds().get(core_kind("bindings"));
    let mut written = input::read(sent, binding.into(), options.validation)?;
    let address = pod_of(caller, &written.object)?;
    let attributes = Attributes::new(registry, caller, Operation::Create, &address.kind, &address);
    let attributes = attributes.for_subresource("binding", BodyKind::BINDING, options.dry_run);
    webhooks::admit(&attributes, &mut written.object).await?;
    let target = written
        .object
        .get("target")
        .and_then(|target| target.get("name"));
    if target.and_then(Value::as_str).unwrap_or("").is_empty() {
        // Kubernetes reports no more than this.
        return Err(StatusError::plain_error("target.name: Required value"));
    }
    let request = Modify {
        kind: &address.kind,
        address: &address,
        subresource: Some("binding"),
        full_update: false,
        dry_run: options.dry_run,
        caller: Some(caller),
        managed_fields: ManagedFields::Preset,
        leaves_managed_fields: false,
    };
    let done = modify(registry, request, |pod| {
        let refuse =
            |why: &str| StatusError::conflict_below(address.of(), "binding", &address.name, why);
        let name = &address.name;
        if pod
            .get("metadata")
            .is_some_and(|of| of.get("deletionTimestamp").is_some())
        {
            let why = format!("pod {name} is being deleted, cannot be assigned to a host");
            return Err(refuse(&why));
        }
        let node = pod
            .get("spec")
            .and_then(|spec| spec.get("nodeName"))
            .and_then(Value::as_str);
        if let Some(node) = node.filter(|node| !node.is_empty()) {
            let why = format!("pod {name} is already assigned to node \"{node}\"");
            return Err(refuse(&why));
        }
        let gates = pod.get("spec").and_then(|spec| spec.get("schedulingGates"));
        if gates
            .and_then(Value::as_array)
            .is_some_and(|gates| !gates.is_empty())
        {
            let why = format!("pod {name} has non-empty .spec.schedulingGates");
            return Err(refuse(&why));
        }
        let mut pod = pod.clone();
        prepare::bind(&mut pod, &written.object, &time::now());
        Ok(Modified {
            object: pod,
            warnings: Vec::new(),
        })
    })
    .await?;
    done.ok_or_else(|| StatusError::not_found(address.of(), &address.name))?;
    Ok(created_status(accepted).warned(written.warnings))
}

/// Returns the pod that the path names, or the body if it is posted to `bindings`.
pub(super) fn pod_of(caller: Caller<'_>, object: &Object) -> Result<Address> {
    let path = caller.path();
    let given = object
        .get("metadata")
        .and_then(|of| of.get("name"))
        .and_then(Value::as_str);
    let name = match (&path.name, given.filter(|given| !given.is_empty())) {
        (Some(name), Some(given)) if name != given => {
            let of = if path.subresource.as_deref() == Some("eviction") {
                "Eviction"
            } else {
                "Binding"
            };
            let why = format!("name in URL does not match name in {of} object");
            return Err(StatusError::bad_request(why));
        }
        (Some(name), _) => name.clone(),
        (None, Some(given)) => given.to_owned(),
        (None, None) => return Err(StatusError::bad_request("name must be provided")),
    };
    Ok(Address {
        kind: core_kind("pods").into(),
        space: caller.space()?.clone(),
        namespace: path.namespace.clone(),
        name,
    })
}

pub(super) fn created_status(accepted: Accepted) -> Answer {
    let view = View::of_status(accepted);
    let status = json!({"metadata": {}, "status": "Success", "code": 201});
    let body = view.status_of(&status);
    Answer::new(StatusCode::CREATED, body).of(accepted)
}
