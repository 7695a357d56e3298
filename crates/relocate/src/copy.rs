//! Copies an object from the source to the target.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ObjectMeta, PostParams, TypeMeta};
use serde_json::Value;

use crate::check::Checks;
use crate::error::Error;
use crate::kind::Kind;
use crate::names::{DELETED_FOR_MOVE, ORIGIN};
use crate::plan::Node;
use crate::server::Server;

/// The UIDs of copied objects: those at the target by those at the source.
pub type UidMap = BTreeMap<String, String>;

/// An object that exists at both servers.
#[derive(Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its UID at the target.
    pub uid: String,
    /// The resourceVersion at the source that was copied.
    pub version: String,
    /// Owners that are not at the target and were removed from the owner references there.
    pub dropped: Vec<String>,
    /// Whether the target already had an object of this name that is no copy and differs.
    pub differs: bool,
}

/// How many conflicting writes are retried before a move gives up.
pub const MAX_ATTEMPTS: u32 = 20;

/// What to do with an object that already exists at the target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Update it if it is a copy of the source's object; fail otherwise.
    Update,
    /// Leave it unchanged.
    Leave,
}

/// Creates or updates an object at the target from its current state at the source. Returns
/// `None` if the source no longer has it. A moved object has to pass the checks.
pub async fn copy(
    servers: (&Server, &Server),
    checks: Checks<'_>,
    node: &Node,
    kind: &Kind,
    uids: &UidMap,
    existing: Existing,
) -> Result<Option<Copied>, Error> {
    let namespace = node.namespace.as_deref();
    let source = servers.0.api(kind, namespace);
    let target = servers.1.api(kind, namespace);
    for _ in 0..MAX_ATTEMPTS {
        let attempted = format!("read {node} at the source");
        let fresh = source.get_opt(&node.name).await;
        let fresh = fresh.map_err(Error::failed_to(attempted))?;
        let same = |fresh: &DynamicObject| fresh.uid().as_deref() == Some(node.uid.as_str());
        let Some(fresh) = fresh.filter(same) else {
            return Ok(None);
        };
        if existing == Existing::Update
            && let Some(obstacle) = checks.copy_obstacle(node, &fresh)
        {
            return Err(Error::NotMovable(vec![obstacle]));
        }
        let version = fresh.resource_version().unwrap_or_default();
        let (wanted, dropped) = for_target(fresh, kind, uids);
        let made = put(&target, node, &wanted, existing).await?;
        if let Some((uid, differs)) = made {
            return Ok(Some(Copied {
                uid,
                version,
                dropped,
                differs,
            }));
        }
    }
    let what = node.to_string();
    Err(Error::KeepsChanging { what })
}

/// Returns the UID of the object at the target, and whether it is no copy and differs. `None`
/// after a conflict.
async fn put(
    target: &Api<DynamicObject>,
    node: &Node,
    wanted: &DynamicObject,
    existing: Existing,
) -> Result<Option<(String, bool)>, Error> {
    let attempted = || format!("create {node} at the target");
    match target.create(&PostParams::default(), wanted).await {
        Ok(made) => return Ok(made.uid().map(|uid| (uid, false))),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(Error::failed_to(attempted())(error)),
    }
    let there = target.get_opt(&node.name).await;
    let Some(there) = there.map_err(Error::failed_to(attempted()))? else {
        return Ok(None);
    };
    let uid = there.uid().unwrap_or_default();
    let ours = there.annotations().get(ORIGIN) == Some(&node.uid);
    let terminating = there.metadata.deletion_timestamp.is_some();
    if terminating && (ours || existing == Existing::Leave) {
        return Err(Error::CopyTerminating(vec![node.to_string()]));
    }
    match existing {
        Existing::Leave => {
            let differs = !ours && content(&there) != content(wanted);
            return Ok(Some((uid, differs)));
        }
        Existing::Update if !ours => return Err(Error::NameTaken(vec![node.to_string()])),
        Existing::Update if is_up_to_date(&there, wanted) => return Ok(Some((uid, false))),
        Existing::Update => {}
    }
    let mut newer = wanted.clone();
    newer.metadata.resource_version = there.resource_version();
    newer.metadata.uid = Some(uid.clone());
    newer.metadata.finalizers = Some(finalizers(&there, wanted));
    match target
        .replace(&node.name, &PostParams::default(), &newer)
        .await
    {
        Ok(_) => Ok(Some((uid, false))),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(None),
        Err(error) => Err(Error::failed_to(format!("update {node} at the target"))(
            error,
        )),
    }
}

/// Returns an object as it is created at the target, and the owners that were dropped: the
/// target's garbage collector would delete an object with an owner that does not exist.
fn for_target(object: DynamicObject, kind: &Kind, uids: &UidMap) -> (DynamicObject, Vec<String>) {
    let DynamicObject { metadata, data, .. } = object;
    let (mut owners, mut dropped) = (Vec::new(), Vec::new());
    for owner in metadata.owner_references.into_iter().flatten() {
        match uids.get(&owner.uid) {
            Some(uid) => owners.push(OwnerReference {
                uid: uid.clone(),
                ..owner
            }),
            None => dropped.push(format!("{} {}", owner.kind, owner.name)),
        }
    }
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.remove(DELETED_FOR_MOVE);
    annotations.insert(ORIGIN.to_owned(), metadata.uid.unwrap_or_default());
    let metadata = ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        labels: metadata.labels,
        annotations: Some(annotations),
        finalizers: metadata.finalizers,
        owner_references: (!owners.is_empty()).then_some(owners),
        ..ObjectMeta::default()
    };
    let types = TypeMeta {
        api_version: kind.resource.api_version.clone(),
        kind: kind.resource.kind.clone(),
    };
    let copied = DynamicObject {
        types: Some(types),
        metadata,
        data: without_status(data),
    };
    (copied, dropped)
}

/// Returns whether a copy is up to date.
fn is_up_to_date(there: &DynamicObject, wanted: &DynamicObject) -> bool {
    there.labels() == wanted.labels()
        && there.annotations() == wanted.annotations()
        && there.finalizers() == finalizers(there, wanted)
        && there.owner_references() == wanted.owner_references()
        && content(there) == content(wanted)
}

/// Merges the finalizers of both: an object that is already being removed has lost its
/// finalizers at the source, but its copy keeps them.
fn finalizers(there: &DynamicObject, wanted: &DynamicObject) -> Vec<String> {
    let mut all = there.finalizers().to_vec();
    let more = wanted.finalizers().iter();
    all.extend(
        more.filter(|one| !there.finalizers().contains(one))
            .cloned(),
    );
    all
}

fn content(object: &DynamicObject) -> Value {
    without_status(object.data.clone())
}

fn without_status(mut data: Value) -> Value {
    if let Some(fields) = data.as_object_mut() {
        fields.remove("status");
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(text: Value) -> DynamicObject {
        serde_json::from_value(text).expect("an object")
    }

    #[test]
    fn copy_keeps_user_fields_and_drops_server_fields() {
        let source = object(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": "s", "namespace": "a", "uid": "u1", "resourceVersion": "7",
                "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
                "generateName": "s-", "labels": {"l": "1"}, "finalizers": ["f"],
                "annotations": {"x": "y", DELETED_FOR_MOVE: ""},
                "managedFields": [{"manager": "m"}],
                "ownerReferences": [
                    {"apiVersion": "a/v1", "kind": "Moved", "name": "m", "uid": "o1", "controller": true},
                    {"apiVersion": "b/v1", "kind": "Sealed", "name": "s", "uid": "o2"},
                ],
            },
            "data": {"k": "dg=="}, "status": {"x": 1},
        }));
        let uids = UidMap::from([("o1".to_owned(), "n1".to_owned())]);
        let (copied, dropped) = for_target(source, &Kind::secrets(), &uids);
        assert_eq!(dropped, ["Sealed s"]);
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": "s", "namespace": "a", "labels": {"l": "1"}, "finalizers": ["f"],
                "annotations": {"x": "y", ORIGIN: "u1"},
                "ownerReferences": [
                    {"apiVersion": "a/v1", "kind": "Moved", "name": "m", "uid": "n1", "controller": true},
                ],
            },
            "data": {"k": "dg=="},
        });
        assert_eq!(serde_json::to_value(copied).expect("JSON"), expected);
    }
}
