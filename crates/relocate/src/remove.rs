//! Deletes an object at the source after it was copied to the target.

use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::api::{PartialObjectMeta, PropagationPolicy};
use serde_json::json;

use crate::copy::MAX_ATTEMPTS;
use crate::error::Error;
use crate::kind::Kind;
use crate::names::DELETED_FOR_MOVE;
use crate::plan::Node;
use crate::server::Server;

/// The outcome of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The object no longer exists.
    Gone,
    /// The object has changed since it was copied, and was not deleted.
    Changed,
}

/// Deletes an object if it has not changed since it was copied.
///
/// Its finalizers are removed before it is deleted, so that no controller ever sees it
/// terminating and destroys what it represents.
pub async fn remove(
    source: &Server,
    node: &Node,
    kind: &Kind,
    version: &str,
) -> Result<Removed, Error> {
    let api = source.api(kind, node.namespace.as_deref());
    let attempted = || format!("delete {node} at the source");
    let fail = |error| Error::failed_to(attempted())(error);
    let mut version = version.to_owned();
    for round in 0..MAX_ATTEMPTS {
        let there = api.get_metadata_opt(&node.name).await.map_err(fail)?;
        let same = |there: &PartialObjectMeta<DynamicObject>| {
            there.uid().as_deref() == Some(node.uid.as_str())
        };
        let Some(there) = there.filter(same) else {
            return Ok(Removed::Gone);
        };
        let current = there.resource_version().unwrap_or_default();
        if current != version && round == 0 {
            return Ok(Removed::Changed);
        }
        version = match is_stripped(&there) {
            true => current,
            false => match bare(&api, &node.name, &current).await.map_err(fail)? {
                Some(next) => next,
                None => return Ok(Removed::Changed),
            },
        };
        match delete(&api, node, &version).await {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(Removed::Gone),
            // Another client has put a finalizer back, or has changed the object otherwise.
            Err(kube::Error::Api(status)) if status.is_conflict() => return Ok(Removed::Changed),
            Err(error) => return Err(fail(error)),
        }
    }
    let what = node.to_string();
    Err(Error::KeepsChanging { what })
}

fn is_stripped(object: &PartialObjectMeta<DynamicObject>) -> bool {
    object.finalizers().is_empty() && object.annotations().contains_key(DELETED_FOR_MOVE)
}

/// Annotates the object and removes its finalizers. Returns `None` after a conflict.
async fn bare(
    api: &Api<DynamicObject>,
    name: &str,
    version: &str,
) -> Result<Option<String>, kube::Error> {
    let patch = json!({"metadata": {
        "resourceVersion": version,
        "annotations": {DELETED_FOR_MOVE: ""},
        "finalizers": null,
    }});
    let patched = api
        .patch_metadata(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    match patched {
        Ok(patched) => Ok(patched.resource_version()),
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn delete(api: &Api<DynamicObject>, node: &Node, version: &str) -> Result<(), kube::Error> {
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(node.uid.clone()),
            resource_version: Some(version.to_owned()),
        }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    api.delete(&node.name, &params).await.map(drop)
}
