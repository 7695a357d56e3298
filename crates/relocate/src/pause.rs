//! Nothing is done to what is paused, at either end.

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::check::{self, Stage};
use crate::copy::TRIES;
use crate::end::End;
use crate::error::Error;
use crate::kind::Kind;
use crate::names::{BLOCK, CAPI, MARK, PAUSED};
use crate::observe::Found;
use crate::plan::{Fate, Node, Step};
use crate::settings::{Pauses, Settings};

/// Pauses a cluster, or a class, for this move.
pub async fn pause(source: &End, node: &Node, kind: &Kind, mark: &str) -> Result<(), Error> {
    let api = source.api(kind, node.namespace.as_deref());
    let attempted = || format!("pause {node} at the source");
    for _ in 0..TRIES {
        let there = api.get_opt(&node.name).await;
        let Some(there) = there.map_err(Error::when(attempted()))? else {
            return Ok(());
        };
        if check::stage(node, &there, mark) == Stage::UnderWay {
            return Ok(());
        }
        if let Some(trouble) = check::trouble(node, &there, mark) {
            return Err(Error::Unfit(vec![trouble]));
        }
        if write(&api, &there, node, Some(mark))
            .await
            .map_err(Error::when(attempted()))?
        {
            return Ok(());
        }
    }
    let what = node.to_string();
    Err(Error::Restless { what })
}

/// Lets go what this move has paused at the target; says what.
pub async fn unpause(target: &End, settings: &Settings, mark: &str) -> Result<Vec<String>, Error> {
    let mut released = Vec::new();
    // A cluster needs its class.
    for name in ["ClusterClass", "Cluster"] {
        let is_it = |kind: &&Kind| kind.resource.group == CAPI && kind.resource.kind == name;
        let Some(kind) = target.kinds.iter().find(is_it) else {
            continue;
        };
        let api = target.api(kind, Some(&settings.namespace));
        let attempted = format!("list {} at the target", kind.resource.plural);
        let list = api.list(&ListParams::default()).await;
        for there in list.map_err(Error::when(attempted))? {
            let meant = settings
                .cluster
                .as_ref()
                .is_none_or(|only| *only == there.name_any());
            if meant && there.annotations().get(MARK).is_some_and(|had| had == mark) {
                released.push(release(&api, kind, there, mark).await?);
            }
        }
    }
    Ok(released)
}

async fn release(
    api: &Api<DynamicObject>,
    kind: &Kind,
    mut there: DynamicObject,
    mark: &str,
) -> Result<String, Error> {
    let node = Node {
        group: kind.resource.group.clone(),
        kind: kind.resource.kind.clone(),
        namespace: there.namespace(),
        name: there.name_any(),
        ..Node::default()
    };
    let attempted = || format!("let {node} go on at the target");
    for _ in 0..TRIES {
        let done = write(api, &there, &node, None).await;
        if done.map_err(Error::when(attempted()))? {
            return Ok(node.to_string());
        }
        there = api
            .get(&node.name)
            .await
            .map_err(Error::when(attempted()))?;
        if there.annotations().get(MARK).is_none_or(|had| had != mark) {
            return Ok(node.to_string());
        }
    }
    let what = node.to_string();
    Err(Error::Restless { what })
}

/// Pauses it for who has this mark, or lets it go. Says no if somebody was faster.
async fn write(
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

/// Whose controllers have not said yet that they have paused.
pub fn unconfirmed(found: &Found, steps: &[Step], settings: &Settings) -> Vec<String> {
    if settings.pauses == Pauses::Assumed {
        return Vec::new();
    }
    moved(found, steps, |object| {
        check::condition(object, "Paused").is_some_and(|status| status != "True")
    })
}

/// What somebody says must not be moved yet.
pub fn blocked(found: &Found, steps: &[Step]) -> Vec<String> {
    moved(found, steps, |object| {
        object.annotations().contains_key(BLOCK)
    })
}

fn moved(found: &Found, steps: &[Step], is_so: impl Fn(&DynamicObject) -> bool) -> Vec<String> {
    let moved = steps.iter().filter(|step| step.fate == Fate::Move);
    moved
        .filter(|step| is_so(&found.objects[step.at].content))
        .map(|step| found.nodes[step.at].to_string())
        .collect()
}
