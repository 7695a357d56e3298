//! What was paused goes on: at the target when it has left the source, and at the source if
//! nothing of it has come to the target.

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};

use crate::check::{self, Stage};
use crate::copy::TRIES;
use crate::end::End;
use crate::error::Error;
use crate::kind::Kind;
use crate::names::{CAPI, MARK, ORIGIN};
use crate::observe::{Found, observe};
use crate::pause::write;
use crate::plan::{Node, Trouble, Wanted, plan};
use crate::settings::{Identities, Settings};

/// Lets go on at the target what this move has paused and has left the source; says what.
///
/// Nothing does as long as a copy is being deleted: whoever looks after it would take that
/// for the order to destroy what it stands for.
pub async fn arrived(
    ends: (&End, &End),
    settings: &Settings,
    mark: &str,
) -> Result<Vec<String>, Error> {
    let (source, target) = ends;
    let alone = Settings {
        identities: Identities::Leave,
        ..settings.clone()
    };
    let mut found = observe(target, &alone).await?;
    for (node, object) in found.nodes.iter_mut().zip(&found.objects) {
        node.root = is_meant(node, settings) && is_marked(&object.content, mark);
    }
    let wanted = Wanted {
        namespace: &settings.namespace,
        cluster: None,
    };
    let steps = plan(&found.nodes, wanted).map_err(Trouble::told)?;
    let all: Vec<usize> = steps.iter().map(|step| step.at).collect();
    let doomed = doomed(&found, &all);
    if !doomed.is_empty() {
        return Err(Error::Doomed(doomed));
    }
    let mut released = Vec::new();
    // A class comes before the clusters that name it.
    for at in all.into_iter().filter(|&at| found.nodes[at].root) {
        let (node, object) = (&found.nodes[at], &found.objects[at]);
        if has_left(source, node, &object.content).await? {
            release(target, node, &object.kind, mark).await?;
            released.push(node.to_string());
        }
    }
    Ok(released)
}

fn doomed(found: &Found, all: &[usize]) -> Vec<String> {
    let doomed = all.iter().filter(|&&at| {
        let metadata = &found.objects[at].content.metadata;
        metadata.deletion_timestamp.is_some()
    });
    doomed.map(|&at| found.nodes[at].to_string()).collect()
}

/// Whether what a copy was made from is not at the source any more.
async fn has_left(source: &End, node: &Node, copied: &DynamicObject) -> Result<bool, Error> {
    let Some(kind) = kind_of(source, &node.kind) else {
        return Ok(true);
    };
    let api = source.api(kind, node.namespace.as_deref());
    let attempted = format!("read {node} at the source");
    let here = api.get_metadata_opt(&node.name).await;
    let here = here.map_err(Error::when(attempted))?;
    let origin = copied.annotations().get(ORIGIN);
    Ok(here.is_none_or(|here| origin.is_some_and(|origin| here.uid().as_ref() != Some(origin))))
}

/// What this move gave back at the source, and what it could not.
#[derive(Debug, Default)]
pub struct GivenBack {
    /// What goes on there.
    pub released: Vec<String>,
    /// What is still paused.
    pub paused: Vec<String>,
}

/// Lets go on at the source what this move has paused, unless something of it is at the
/// target: a cluster comes there first, so that nothing has left the source if none is there.
pub async fn give_back(
    ends: (&End, &End),
    settings: &Settings,
    mark: &str,
) -> Result<GivenBack, Error> {
    let (source, target) = ends;
    let (mut held, mut copied) = (Vec::new(), false);
    for name in ["ClusterClass", "Cluster"] {
        let Some(kind) = kind_of(source, name) else {
            continue;
        };
        for (node, uid) in under_way(source, kind, settings, mark).await? {
            let attempted = format!("read {node} at the target");
            let api = target.api(kind, node.namespace.as_deref());
            let there = api.get_metadata_opt(&node.name).await;
            let there = there.map_err(Error::when(attempted))?;
            copied |= there.is_some_and(|there| there.annotations().get(ORIGIN) == Some(&uid));
            held.push((node, kind));
        }
    }
    let mut done = GivenBack::default();
    for (node, kind) in held {
        match !copied && release(source, &node, kind, mark).await.is_ok() {
            true => done.released.push(node.to_string()),
            false => done.paused.push(node.to_string()),
        }
    }
    Ok(done)
}

/// What of a kind this move has paused at the source, with its UID.
async fn under_way(
    source: &End,
    kind: &Kind,
    settings: &Settings,
    mark: &str,
) -> Result<Vec<(Node, String)>, Error> {
    let api = source.api(kind, Some(&settings.namespace));
    let attempted = format!("list {} at the source", kind.resource.plural);
    let list = api.list(&ListParams::default()).await;
    let mut found = Vec::new();
    for here in list.map_err(Error::when(attempted))? {
        let node = Node {
            group: kind.resource.group.clone(),
            kind: kind.resource.kind.clone(),
            namespace: here.namespace(),
            name: here.name_any(),
            ..Node::default()
        };
        if is_meant(&node, settings) && check::stage(&node, &here, mark) == Stage::UnderWay {
            found.push((node, here.uid().unwrap_or_default()));
        }
    }
    Ok(found)
}

/// Lets one go on, if it is still this move that has paused it.
async fn release(end: &End, node: &Node, kind: &Kind, mark: &str) -> Result<(), Error> {
    let api = end.api(kind, node.namespace.as_deref());
    let attempted = || format!("let {node} go on at the {}", end.place);
    for _ in 0..TRIES {
        let there = api.get_opt(&node.name).await;
        let there = there.map_err(Error::when(attempted()))?;
        let Some(there) = there.filter(|there| is_marked(there, mark)) else {
            return Ok(());
        };
        let done = write(&api, &there, node, None).await;
        if done.map_err(Error::when(attempted()))? {
            return Ok(());
        }
    }
    let what = node.to_string();
    Err(Error::Restless { what })
}

fn kind_of<'a>(end: &'a End, name: &str) -> Option<&'a Kind> {
    let mut kinds = end.kinds.iter();
    kinds.find(|kind| kind.resource.group == CAPI && kind.resource.kind == name)
}

/// Whether it is a cluster that this move is about, or a class; one cluster leaves its class.
fn is_meant(node: &Node, settings: &Settings) -> bool {
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
