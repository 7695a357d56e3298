//! Unpauses clusters: at the target when they have left the source, or at the source if none of
//! them was copied.

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};

use crate::check::{self, Checks, Stage};
use crate::copy::MAX_ATTEMPTS;
use crate::error::Error;
use crate::hold::{has_copy, held, resume};
use crate::kind::Kind;
use crate::names::{CAPI, MARK, ORIGIN};
use crate::observe::{Observed, observe};
use crate::pause::write;
use crate::plan::{Node, Selection, plan};
use crate::server::Server;
use crate::settings::{Identities, Settings};

/// Unpauses at the target what this move has paused and has deleted at the source; returns the
/// names.
///
/// Nothing is unpaused while a copy is being deleted: its controller would destroy what it
/// represents.
pub async fn release_at_target(
    servers: (&Server, &Server),
    settings: &Settings,
    mark: &str,
) -> Result<Vec<String>, Error> {
    let (source, target) = servers;
    let alone = without_identities(settings);
    let mut found = observe(target, &alone).await?;
    for (node, object) in found.nodes.iter_mut().zip(&found.objects) {
        node.root = is_selected(node, settings) && is_marked(&object.content, mark);
        // Here, the plan is only about the clusters and their dependents.
        (node.needs, node.stays) = (Vec::new(), false);
    }
    let selection = Selection {
        namespace: &settings.namespace,
        cluster: None,
    };
    let steps = plan(&found.nodes, selection)?;
    let all: Vec<usize> = steps.iter().map(|step| step.at).collect();
    let checks = Checks {
        mark,
        providers: settings.providers,
    };
    let terminating = terminating(&found, &all, checks);
    if !terminating.is_empty() {
        return Err(Error::CopyTerminating(terminating));
    }
    let mut released = resume_at_target(servers, &alone, &found, checks).await?;
    // The plan orders a class before the clusters that reference it.
    for at in all.into_iter().filter(|&at| found.nodes[at].root) {
        let (node, object) = (&found.nodes[at], &found.objects[at]);
        if has_left(source, node, &object.content).await? {
            release(target, node, &object.kind, mark).await?;
            released.push(node.to_string());
        }
    }
    Ok(released)
}

/// Unpauses at the target what no cluster pauses, after it has left the source.
async fn resume_at_target(
    (source, target): (&Server, &Server),
    settings: &Settings,
    found: &Observed,
    checks: Checks<'_>,
) -> Result<Vec<String>, Error> {
    let (mut released, mut read) = (Vec::new(), None);
    for _ in 0..MAX_ATTEMPTS {
        let mut conflicts = false;
        for (node, object) in held(read.as_ref().unwrap_or(found), checks) {
            if !has_left(source, node, &object.content).await? {
                continue;
            }
            match resume(target, node, object, checks).await? {
                true => released.push(node.to_string()),
                false => conflicts = true,
            }
        }
        if !conflicts {
            return Ok(released);
        }
        read = Some(observe(target, settings).await?);
    }
    let what = format!("namespace {}", settings.namespace);
    Err(Error::KeepsChanging { what })
}

fn terminating(found: &Observed, all: &[usize], checks: Checks<'_>) -> Vec<String> {
    let moved = all.iter().map(|&at| (&found.nodes[at], &found.objects[at]));
    let all = moved.chain(held(found, checks));
    let terminating = all.filter(|(_, object)| {
        let metadata = &object.content.metadata;
        metadata.deletion_timestamp.is_some()
    });
    let mut names: Vec<String> = terminating.map(|(node, _)| node.to_string()).collect();
    names.dedup();
    names
}

/// Returns whether the original of a copy is no longer at the source.
async fn has_left(source: &Server, node: &Node, copied: &DynamicObject) -> Result<bool, Error> {
    let Some(kind) = kind_of(source, &node.group, &node.kind) else {
        return Ok(true);
    };
    let api = source.api(kind, node.namespace.as_deref());
    let attempted = format!("read {node} at the source");
    let here = api.get_metadata_opt(&node.name).await;
    let here = here.map_err(Error::failed_to(attempted))?;
    let origin = copied.annotations().get(ORIGIN);
    Ok(here.is_none_or(|here| origin.is_some_and(|origin| here.uid().as_ref() != Some(origin))))
}

/// The outcome of the rollback at the source.
#[derive(Debug, Default)]
pub struct SourceRelease {
    /// What was unpaused.
    pub released: Vec<String>,
    /// What is still paused.
    pub paused: Vec<String>,
}

/// Unpauses at the source what this move has paused, unless a cluster has been copied: clusters
/// are copied first, so nothing has been deleted at the source if the target has none.
pub async fn release_at_source(
    servers: (&Server, &Server),
    settings: &Settings,
    mark: &str,
) -> Result<SourceRelease, Error> {
    let (source, target) = servers;
    let (mut held, mut copied) = (Vec::new(), false);
    for name in ["ClusterClass", "Cluster"] {
        let Some(kind) = kind_of(source, CAPI, name) else {
            continue;
        };
        for (node, uid) in paused_by_move(source, kind, settings, mark).await? {
            let attempted = format!("read {node} at the target");
            let api = target.api(kind, node.namespace.as_deref());
            let there = api.get_metadata_opt(&node.name).await;
            let there = there.map_err(Error::failed_to(attempted))?;
            copied |= there.is_some_and(|there| there.annotations().get(ORIGIN) == Some(&uid));
            held.push((node, kind));
        }
    }
    let mut done = SourceRelease::default();
    for (node, kind) in held {
        match !copied && release(source, &node, kind, mark).await.is_ok() {
            true => done.released.push(node.to_string()),
            false => done.paused.push(node.to_string()),
        }
    }
    resume_at_source(servers, settings, mark, copied, &mut done).await?;
    Ok(done)
}

/// Unpauses at the source what no cluster pauses, unless it, or a cluster, was copied.
async fn resume_at_source(
    (source, target): (&Server, &Server),
    settings: &Settings,
    mark: &str,
    is_cluster_copied: bool,
    done: &mut SourceRelease,
) -> Result<(), Error> {
    let checks = Checks {
        mark,
        providers: settings.providers,
    };
    let found = observe(source, &without_identities(settings)).await?;
    for (node, object) in held(&found, checks) {
        let is_copied = is_cluster_copied || has_copy(target, node, object).await?;
        match !is_copied && resume(source, node, object, checks).await? {
            true => done.released.push(node.to_string()),
            false => done.paused.push(node.to_string()),
        }
    }
    Ok(())
}

fn without_identities(settings: &Settings) -> Settings {
    Settings {
        identities: Identities::Leave,
        ..settings.clone()
    }
}

/// Returns the objects of a kind that this move has paused at the source, with their UIDs.
async fn paused_by_move(
    source: &Server,
    kind: &Kind,
    settings: &Settings,
    mark: &str,
) -> Result<Vec<(Node, String)>, Error> {
    let api = source.api(kind, Some(&settings.namespace));
    let attempted = format!("list {} at the source", kind.resource.plural);
    let list = api.list(&ListParams::default()).await;
    let mut found = Vec::new();
    for here in list.map_err(Error::failed_to(attempted))? {
        let node = Node {
            group: kind.resource.group.clone(),
            kind: kind.resource.kind.clone(),
            namespace: here.namespace(),
            name: here.name_any(),
            ..Node::default()
        };
        if is_selected(&node, settings) && check::stage(&node, &here, mark) == Stage::Moving {
            found.push((node, here.uid().unwrap_or_default()));
        }
    }
    Ok(found)
}

/// Unpauses one object, if it is still paused by this move.
async fn release(server: &Server, node: &Node, kind: &Kind, mark: &str) -> Result<(), Error> {
    let api = server.api(kind, node.namespace.as_deref());
    let attempted = || format!("unpause {node} at the {}", server.role);
    for _ in 0..MAX_ATTEMPTS {
        let there = api.get_opt(&node.name).await;
        let there = there.map_err(Error::failed_to(attempted()))?;
        let Some(there) = there.filter(|there| is_marked(there, mark)) else {
            return Ok(());
        };
        let done = write(&api, &there, node, None).await;
        if done.map_err(Error::failed_to(attempted()))? {
            return Ok(());
        }
    }
    let what = node.to_string();
    Err(Error::KeepsChanging { what })
}

fn kind_of<'a>(server: &'a Server, group: &str, name: &str) -> Option<&'a Kind> {
    let mut kinds = server.kinds.iter();
    kinds.find(|kind| kind.resource.group == group && kind.resource.kind == name)
}

/// Returns whether the move is about this cluster or class; moving one cluster leaves its class.
fn is_selected(node: &Node, settings: &Settings) -> bool {
    match &settings.cluster {
        Some(only) => node.is_cluster() && node.name == *only,
        None => node.is_cluster() || node.is_class(),
    }
}

fn is_marked(object: &DynamicObject, mark: &str) -> bool {
    object
        .annotations()
        .get(MARK)
        .is_some_and(|had| had == mark)
}
