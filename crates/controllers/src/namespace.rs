//! A namespace that is being deleted: its content goes, then it goes.

use insula_apiserver::Registry;
use insula_apiserver::registry::{Address, namespace_address};
use insula_apiserver::status::Refusal;
use insula_apiserver::write::{Modified, Modify, modify};
use insula_core::Space;
use insula_kinds::{Object, Value};

use crate::Step;
use crate::conditions::{Wording, tell};
use crate::content::{self, Remaining};

const WORDING: Wording = Wording {
    prefix: "Namespace",
    called: "namespace",
};

/// What a namespace's content is held by.
const FINALIZER: &str = "kubernetes";

/// Removes what can be removed, and the namespace itself if nothing is left.
pub async fn step(registry: &Registry, space: &Space, name: &str) -> Result<Step, Refusal> {
    let address = namespace_address(space, name);
    let Some(found) = registry.fresh(&address).await? else {
        return Ok(Step::Done);
    };
    let tree = found.tree();
    if !is_terminating(&tree) {
        return Ok(Step::Done);
    }
    if !holds(&tree, FINALIZER) {
        // Others hold it by finalizers of their own; they remove it.
        return Ok(Step::Done);
    }
    let remaining = content::remove(registry, space, Some(name), |kind| kind.namespaced()).await?;
    conclude(registry, &address, WORDING, FINALIZER, &remaining).await
}

/// Says what is left, or lets go.
pub async fn conclude(
    registry: &Registry,
    address: &Address,
    wording: Wording,
    finalizer: &str,
    remaining: &Remaining,
) -> Result<Step, Refusal> {
    let done = remaining.is_empty();
    let request = Modify {
        kind: address.of(),
        address,
        subresource: Some(if done { "finalize" } else { "status" }),
        whole: false,
        dry_run: false,
    };
    modify(registry, request, |current| {
        let mut object = current.clone();
        if done {
            release(&mut object, finalizer);
        } else {
            tell(&mut object, wording, remaining);
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    })
    .await?;
    Ok(if done { Step::Done } else { Step::Waiting })
}

/// Whether the object is being deleted.
pub fn is_terminating(object: &Object) -> bool {
    object
        .get("metadata")
        .is_some_and(|of| of.get("deletionTimestamp").is_some())
}

/// Whether its specification names the finalizer.
pub fn holds(object: &Object, finalizer: &str) -> bool {
    let list = object.get("spec").and_then(|spec| spec.get("finalizers"));
    let list = list.and_then(Value::as_array);
    list.is_some_and(|list| list.iter().any(|one| one == finalizer))
}

fn release(object: &mut Object, finalizer: &str) {
    let spec = object
        .get_mut("spec")
        .and_then(|spec| spec.get_mut("finalizers"));
    if let Some(list) = spec.and_then(Value::as_array_mut) {
        list.retain(|one| one != finalizer);
    }
}
