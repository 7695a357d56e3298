//! Pauses of objects that no cluster pauses, as the rules of their providers describe them.

use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::check::Checks;
use crate::error::Error;
use crate::names::ORIGIN;
use crate::observe::{Object, Observed};
use crate::plan::Node;
use crate::server::Server;

/// Pauses an object, if it has to be. Returns whether it had to be; after a conflict it may still
/// have to be.
pub async fn hold(
    source: &Server,
    node: &Node,
    object: &Object,
    checks: Checks<'_>,
) -> Result<bool, Error> {
    let Some(patch) = checks.hold(node, &object.content) else {
        return Ok(false);
    };
    write(source, node, object, patch, "pause").await?;
    Ok(true)
}

/// Ends the pause of an object, if this move has set it. Returns whether it has.
pub async fn resume(
    server: &Server,
    node: &Node,
    object: &Object,
    checks: Checks<'_>,
) -> Result<bool, Error> {
    match checks.resume(node, &object.content) {
        Some(patch) => write(server, node, object, patch, "unpause").await,
        None => Ok(false),
    }
}

/// Returns the objects that this move has paused and that no cluster pauses.
pub fn held<'a>(
    found: &'a Observed,
    checks: Checks<'a>,
) -> impl Iterator<Item = (&'a Node, &'a Object)> {
    let all = found.nodes.iter().zip(&found.objects);
    all.filter(move |(node, object)| checks.resume(node, &object.content).is_some())
}

/// Returns whether a server has a copy of an object of the other one.
pub async fn has_copy(target: &Server, node: &Node, object: &Object) -> Result<bool, Error> {
    let api = target.api(&object.kind, node.namespace.as_deref());
    let attempted = format!("read {node} at the {}", target.role);
    let there = match api.get_metadata_opt(&node.name).await {
        // The kind is not served.
        Err(kube::Error::Api(status)) if status.is_not_found() => None,
        there => there.map_err(Error::failed_to(attempted))?,
    };
    Ok(there.is_some_and(|there| there.annotations().get(ORIGIN) == Some(&node.uid)))
}

/// Writes a patch, if the object has not changed since it was read. Returns whether it was written.
async fn write(
    server: &Server,
    node: &Node,
    object: &Object,
    mut patch: Value,
    verb: &str,
) -> Result<bool, Error> {
    let content: &DynamicObject = &object.content;
    patch["metadata"]["resourceVersion"] = json!(content.resource_version());
    let api = server.api(&object.kind, node.namespace.as_deref());
    let attempted = format!("{verb} {node} at the {}", server.role);
    let patch = Patch::Merge(&patch);
    let parameters = PatchParams::default();
    match api.patch(&node.name, &parameters, &patch).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(false),
        Err(error) => Err(Error::failed_to(attempted)(error)),
    }
}
