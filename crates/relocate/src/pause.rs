//! Pauses clusters and classes, so that no controller reconciles them during a move.

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::check::{self, Checks, Stage};
use crate::copy::MAX_ATTEMPTS;
use crate::error::Error;
use crate::kind::Kind;
use crate::names::{BLOCK, MARK, PAUSED};
use crate::observe::Observed;
use crate::plan::{Disposition, Node, Step};
use crate::server::Server;
use crate::settings::{Pauses, Settings};

/// Pauses a cluster or class at the source, with the mark of this move.
pub async fn pause(
    source: &Server,
    node: &Node,
    kind: &Kind,
    checks: Checks<'_>,
) -> Result<(), Error> {
    let api = source.api(kind, node.namespace.as_deref());
    let attempted = || format!("pause {node} at the source");
    for _ in 0..MAX_ATTEMPTS {
        let there = api.get_opt(&node.name).await;
        let Some(there) = there.map_err(Error::failed_to(attempted()))? else {
            return Ok(());
        };
        if check::stage(node, &there, checks.mark) == Stage::Moving {
            return Ok(());
        }
        if let Some(obstacle) = checks.move_obstacle(node, &there) {
            return Err(Error::NotMovable(vec![obstacle]));
        }
        if write(&api, &there, node, Some(checks.mark))
            .await
            .map_err(Error::failed_to(attempted()))?
        {
            return Ok(());
        }
    }
    let what = node.to_string();
    Err(Error::KeepsChanging { what })
}

/// Pauses a cluster or class with a mark, or unpauses it. Returns `false` after a conflict.
pub async fn write(
    api: &Api<DynamicObject>,
    there: &DynamicObject,
    node: &Node,
    mark: Option<&str>,
) -> Result<bool, kube::Error> {
    let mut patch = json!({"metadata": {
        "resourceVersion": there.resource_version(),
        "annotations": {MARK: mark},
    }});
    match node.is_class() {
        true => patch["metadata"]["annotations"][PAUSED] = mark.map_or(Value::Null, |_| json!("")),
        false => patch["spec"] = json!({"paused": mark.map(|_| true)}),
    }
    match api
        .patch(&node.name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
    {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the moved objects with a `Paused` condition that is not yet true.
pub fn unconfirmed(found: &Observed, steps: &[Step], settings: &Settings) -> Vec<String> {
    if settings.pauses == Pauses::Assumed {
        return Vec::new();
    }
    moved(found, steps, |object| {
        check::condition(object, "Paused").is_some_and(|status| status != "True")
    })
}

/// Returns the moved objects with the annotation that blocks a move.
pub fn blocked(found: &Observed, steps: &[Step]) -> Vec<String> {
    moved(found, steps, |object| {
        object.annotations().contains_key(BLOCK)
    })
}

fn moved(found: &Observed, steps: &[Step], is_so: impl Fn(&DynamicObject) -> bool) -> Vec<String> {
    let moved = steps
        .iter()
        .filter(|step| step.disposition == Disposition::Move);
    moved
        .filter(|step| is_so(&found.objects[step.at].content))
        .map(|step| found.nodes[step.at].to_string())
        .collect()
}
