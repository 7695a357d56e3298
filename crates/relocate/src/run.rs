//! The order of a move.
//!
//! ```text
//! connect    to both servers, and discover their kinds
//! release    at the target what an earlier run has moved
//! plan       from the objects at the source
//! check      whether clusters can be moved, and whether the target can take them
//! pause      at the source, with a mark that names source and target
//! wait       until controllers have paused and no object blocks the move; check again
//! copy       to the target, owners first; paused clusters stay paused there
//! remove     from the source, owners last
//! release    at the target, and remove the mark
//! ```
//!
//! Every step finds out what was done before, so a move that was killed is resumed by running it
//! again. Until the last object has left the source, clusters are paused at both servers; what
//! has left the source is at the target. A move that fails before a cluster was copied unpauses
//! at the source what it has paused.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use insula_operator::report::Report;
use kube::Client;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, ObjectMeta};
use tokio::time::{Instant, sleep};

use crate::aside::{left_behind, zones};
use crate::check;
use crate::copy::{Copied, Existing, TRIES, Uids, copy};
use crate::end::End;
use crate::error::Error;
use crate::ground;
use crate::kind::Kind;
use crate::names::{CLUSTER_NAME, ORIGIN};
use crate::observe::{Found, observe};
use crate::pause::{blocked, pause, unconfirmed};
use crate::plan::{Fate, Node, Step, Trouble, Wanted, plan};
use crate::release::{arrived, give_back};
use crate::remove::{Removed, remove};
use crate::settings::{Identities, Settings};

/// The objects that were moved, or would be, each as kind, namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Objects that are at the target now, and no longer at the source.
    pub moved: Vec<String>,
    /// Objects that are at both servers.
    pub copied: Vec<String>,
    /// Clusters and classes that were unpaused at the target.
    pub unpaused: Vec<String>,
}

/// Moves clusters from one server, or space, to another.
pub async fn relocate(
    source: &Client,
    target: &Client,
    settings: &Settings,
    report: &dyn Report,
) -> Result<Moved, Error> {
    let ways = Move::begin(source, target, settings, report).await?;
    match ways.go().await {
        Ok(moved) => Ok(moved),
        Err(error) => Err(ways.give_back(error).await),
    }
}

/// Returns what would be moved and reports what prevents it, without writing anything.
pub async fn preview(
    source: &Client,
    target: &Client,
    settings: &Settings,
    report: &dyn Report,
) -> Result<Moved, Error> {
    let ways = Move::begin(source, target, settings, report).await?;
    let (found, steps) = ways.look().await?;
    if steps.is_empty() {
        return Err(ways.nothing());
    }
    if let Err(error) = ways.check(&found, &steps).await {
        report.warn(&error.to_string());
    }
    ways.tell(&found, &steps).await;
    Ok(listed(&found, &steps))
}

/// A move between two servers.
struct Move<'a> {
    source: End,
    target: End,
    settings: &'a Settings,
    report: &'a dyn Report,
    /// The UIDs of source and target, as annotated on clusters that are being moved.
    mark: String,
}

/// A check that returns why an object cannot be moved or copied.
type Keeps = fn(&Node, &DynamicObject, &str) -> Option<String>;

/// The copies, by the index of their step, and their names.
struct Carried {
    copies: Vec<Option<Copied>>,
    summary: Moved,
}

impl<'a> Move<'a> {
    async fn begin(
        source: &Client,
        target: &Client,
        settings: &'a Settings,
        report: &'a dyn Report,
    ) -> Result<Self, Error> {
        let source = End::meet(source, "source").await?;
        let target = End::meet(target, "target").await?;
        if source.uid == target.uid {
            return Err(Error::SamePlace);
        }
        let mark = format!("{}/{}", source.uid, target.uid);
        Ok(Self {
            source,
            target,
            settings,
            report,
            mark,
        })
    }

    async fn go(&self) -> Result<Moved, Error> {
        let before = self.arrived().await?;
        let (found, steps) = self.look().await?;
        let mut moved = Moved::default();
        if !steps.is_empty() {
            self.check(&found, &steps).await?;
            self.tell(&found, &steps).await;
            self.pause(&found, &steps).await?;
            let (found, steps, carried) = self.copy_all().await?;
            self.remove_all(&found, &steps, &carried.copies).await?;
            moved = carried.summary;
        }
        moved.unpaused = before;
        moved.unpaused.extend(self.arrived().await?);
        match moved == Moved::default() {
            true => Err(self.nothing()),
            false => Ok(moved),
        }
    }

    async fn look(&self) -> Result<(Found, Vec<Step>), Error> {
        let found = observe(&self.source, self.settings).await?;
        let wanted = Wanted {
            namespace: &self.settings.namespace,
            cluster: self.settings.cluster.as_deref(),
        };
        let steps = plan(&found.nodes, wanted).map_err(Error::from)?;
        Ok((found, steps))
    }

    async fn check(&self, found: &Found, steps: &[Step]) -> Result<(), Error> {
        self.fit(found, steps, check::trouble)?;
        self.served(found, steps)?;
        self.free(found, steps).await
    }

    /// Fails if a moved object does not pass the check.
    fn fit(&self, found: &Found, steps: &[Step], keeps: Keeps) -> Result<(), Error> {
        let moved = steps.iter().filter(|step| step.fate == Fate::Move);
        let troubles = moved.filter_map(|step| {
            let (node, object) = (&found.nodes[step.at], &found.objects[step.at]);
            keeps(node, &object.content, &self.mark)
        });
        let troubles: Vec<String> = troubles.collect();
        match troubles.is_empty() {
            true => Ok(()),
            false => Err(Error::Unfit(troubles)),
        }
    }

    /// Fails if the target does not serve a kind in the version that the source stores.
    fn served(&self, found: &Found, steps: &[Step]) -> Result<(), Error> {
        let kinds = steps.iter().map(|step| &found.objects[step.at].kind);
        let lacks = kinds.filter(|kind| !self.target_serves(kind));
        let names = lacks.map(|kind| {
            let resource = &kind.resource;
            format!("{} in {}", resource.kind, resource.api_version)
        });
        let names: BTreeSet<String> = names.collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(Error::NoKinds(names.into_iter().collect())),
        }
    }

    fn target_serves(&self, kind: &Kind) -> bool {
        let same = |other: &&Kind| {
            other.resource.group == kind.resource.group
                && other.resource.plural == kind.resource.plural
        };
        kind.resource.group.is_empty()
            || self.target.kinds.iter().find(same).is_some_and(|other| {
                other.namespaced == kind.namespaced && other.served.contains(&kind.resource.version)
            })
    }

    /// Fails if the target has an object of a moved one's name that is no copy of it, or if a copy
    /// is being deleted there.
    async fn free(&self, found: &Found, steps: &[Step]) -> Result<(), Error> {
        let (mut taken, mut doomed) = (Vec::new(), Vec::new());
        let mut looked: BTreeMap<(&str, &str, Option<&str>), Vec<ObjectMeta>> = BTreeMap::new();
        for step in steps {
            let (node, kind) = (&found.nodes[step.at], &found.objects[step.at].kind);
            let (group, plural) = (&kind.resource.group, &kind.resource.plural);
            let there = match looked.entry((group, plural, node.namespace.as_deref())) {
                Entry::Occupied(had) => had.into_mut(),
                Entry::Vacant(lacks) => lacks.insert(self.there(node, kind).await?),
            };
            let is_it = |there: &&ObjectMeta| there.name.as_ref() == Some(&node.name);
            let Some(there) = there.iter().find(is_it) else {
                continue;
            };
            let origin = there.annotations.as_ref().and_then(|all| all.get(ORIGIN));
            if step.fate == Fate::Move && origin != Some(&node.uid) {
                taken.push(node.to_string());
            } else if there.deletion_timestamp.is_some() {
                doomed.push(node.to_string());
            }
        }
        match (taken.is_empty(), doomed.is_empty()) {
            (true, true) => Ok(()),
            (_, false) => Err(Error::Doomed(doomed)),
            (false, _) => Err(Error::Taken(taken)),
        }
    }

    /// Lists the objects of a kind at the target, in the namespace of an object.
    async fn there(&self, node: &Node, kind: &Kind) -> Result<Vec<ObjectMeta>, Error> {
        let api = self.target.api(kind, node.namespace.as_deref());
        let attempted = format!("list {} at the target", kind.resource.plural);
        let there = api.list_metadata(&ListParams::default()).await;
        let there = there.map_err(Error::when(attempted))?;
        Ok(there.items.into_iter().map(|one| one.metadata).collect())
    }

    async fn pause(&self, found: &Found, steps: &[Step]) -> Result<(), Error> {
        for step in steps.iter().filter(|step| step.fate == Fate::Move) {
            let node = &found.nodes[step.at];
            if node.is_cluster() || node.is_class() {
                let kind = &found.objects[step.at].kind;
                pause(&self.source, node, kind, &self.mark).await?;
                self.report.done(&format!("paused {node} at the source"));
            }
        }
        Ok(())
    }

    /// Waits until everything that is moved is paused and not blocked, and returns the plan.
    async fn settle(&self) -> Result<(Found, Vec<Step>), Error> {
        let deadline = Instant::now() + self.settings.patience;
        let after = self.settings.patience;
        let mut reported = false;
        loop {
            let (found, steps) = self.look().await?;
            let unpaused = unconfirmed(&found, &steps, self.settings);
            let blocked = blocked(&found, &steps);
            let waiting = match (unpaused.is_empty(), blocked.is_empty()) {
                (true, true) => {
                    self.fit(&found, &steps, check::unrest)?;
                    return Ok((found, steps));
                }
                (false, _) => unpaused,
                (true, false) => blocked.clone(),
            };
            if Instant::now() >= deadline {
                return Err(match blocked.is_empty() {
                    true => Error::Unpaused { after, waiting },
                    false => Error::Blocked { after, waiting },
                });
            }
            if !reported {
                self.report
                    .begin(&format!("waiting for {}", waiting.join(", ")));
                reported = true;
            }
            sleep(self.settings.look).await;
        }
    }

    /// Copies until the source has no objects that were not copied.
    async fn copy_all(&self) -> Result<(Found, Vec<Step>, Carried), Error> {
        let (mut found, mut steps) = self.settle().await?;
        self.served(&found, &steps)?;
        self.prepare(&found, &steps).await?;
        for _ in 0..TRIES {
            let carried = self.copy_once(&found, &steps).await?;
            let (next, more) = self.settle().await?;
            let here: BTreeSet<String> = more
                .iter()
                .map(|step| next.nodes[step.at].uid.clone())
                .collect();
            if here.is_subset(&safe(&found, &steps, &carried.copies)) {
                self.free(&next, &more).await?;
                return Ok((found, steps, carried));
            }
            (found, steps) = (next, more);
        }
        let what = format!("namespace {}", self.settings.namespace);
        Err(Error::Restless { what })
    }

    async fn copy_once(&self, found: &Found, steps: &[Step]) -> Result<Carried, Error> {
        let (mut known, mut foreign) = (Uids::new(), Vec::new());
        let (mut copies, mut summary) = (Vec::new(), listed(found, steps));
        for step in steps {
            let node = &found.nodes[step.at];
            let copied = match self.hangs_below(node, step.fate, &foreign) {
                true => None,
                false => self.copy_one(found, step, &known).await?,
            };
            match &copied {
                Some(copied) => {
                    known.insert(node.uid.clone(), copied.uid.clone());
                    if copied.differs {
                        self.report.warn(&format!(
                            "{node} differs at the target, and is left as it is there"
                        ));
                        foreign.push(node);
                    }
                    for owner in &copied.dropped {
                        self.report.warn(&format!(
                            "{owner} owns {node} at the source and is not moved: {node} does not name it at the target"
                        ));
                    }
                }
                None => summary.copied.retain(|name| *name != node.to_string()),
            }
            copies.push(copied);
        }
        Ok(Carried { copies, summary })
    }

    async fn copy_one(
        &self,
        found: &Found,
        step: &Step,
        known: &Uids,
    ) -> Result<Option<Copied>, Error> {
        let existing = match step.fate {
            Fate::Move => Existing::Update,
            Fate::Copy => Existing::Leave,
        };
        let (node, kind) = (&found.nodes[step.at], &found.objects[step.at].kind);
        let ends = (&self.source, &self.target);
        let copied = copy(ends, &self.mark, node, kind, known, existing).await?;
        if copied.is_some() {
            self.report.done(&format!("copied {node} to the target"));
        }
        Ok(copied)
    }

    /// Deletes the moved objects at the source. One that has changed meanwhile is copied again.
    async fn remove_all(
        &self,
        found: &Found,
        steps: &[Step],
        copies: &[Option<Copied>],
    ) -> Result<(), Error> {
        let uids = steps.iter().zip(copies).filter_map(|(step, copied)| {
            let uid = copied.as_ref()?.uid.clone();
            Some((found.nodes[step.at].uid.clone(), uid))
        });
        let known: Uids = uids.collect();
        for (step, copied) in steps.iter().zip(copies).rev() {
            let Some(copied) = copied.as_ref().filter(|_| step.fate == Fate::Move) else {
                continue;
            };
            self.still_paused(found, steps, step).await?;
            self.remove_one(found, step, copied, &known).await?;
        }
        Ok(())
    }

    /// Fails if the object's cluster was unpaused: its controllers would create what is removed
    /// again, and it would exist twice.
    async fn still_paused(&self, found: &Found, steps: &[Step], step: &Step) -> Result<(), Error> {
        let labels = found.objects[step.at].content.labels();
        let name = labels.get(CLUSTER_NAME);
        let clusters = steps.iter().map(|step| step.at);
        let clusters: Vec<usize> = clusters
            .filter(|&at| found.nodes[at].is_cluster())
            .collect();
        // An object without the cluster label belongs to the only cluster, if to any.
        let its = match (name, clusters.as_slice()) {
            (None, [only]) => Some(*only),
            (name, all) => all
                .iter()
                .copied()
                .find(|&at| Some(&found.nodes[at].name) == name),
        };
        let Some(at) = its else {
            return Ok(());
        };
        let (node, kind) = (&found.nodes[at], &found.objects[at].kind);
        let api = self.source.api(kind, node.namespace.as_deref());
        let attempted = format!("read {node} at the source");
        let here = api.get_opt(&node.name).await;
        let here = here.map_err(Error::when(attempted))?;
        match here.and_then(|here| check::unrest(node, &here, &self.mark)) {
            Some(unrest) => Err(Error::Unfit(vec![unrest])),
            None => Ok(()),
        }
    }

    async fn remove_one(
        &self,
        found: &Found,
        step: &Step,
        copied: &Copied,
        known: &Uids,
    ) -> Result<(), Error> {
        let (node, kind) = (&found.nodes[step.at], &found.objects[step.at].kind);
        let mut version = copied.version.clone();
        for _ in 0..TRIES {
            if remove(&self.source, node, kind, &version).await? == Removed::Gone {
                self.report.done(&format!("deleted {node} at the source"));
                return Ok(());
            }
            let ends = (&self.source, &self.target);
            let again = copy(ends, &self.mark, node, kind, known, Existing::Update).await?;
            let Some(again) = again else {
                return Ok(());
            };
            version = again.version;
        }
        let what = node.to_string();
        Err(Error::Restless { what })
    }

    async fn arrived(&self) -> Result<Vec<String>, Error> {
        let ends = (&self.source, &self.target);
        let released = arrived(ends, self.settings, &self.mark).await?;
        for name in &released {
            self.report.done(&format!("unpaused {name} at the target"));
        }
        Ok(released)
    }

    /// Rolls back at the source; returns the error, with what is still paused.
    async fn give_back(&self, error: Error) -> Error {
        let ends = (&self.source, &self.target);
        // If a server does not answer, what is still paused is not known.
        let Ok(done) = give_back(ends, self.settings, &self.mark).await else {
            return error;
        };
        for name in &done.released {
            self.report.done(&format!("unpaused {name} at the source"));
        }
        match done.paused.is_empty() {
            true => error,
            false => Error::Held {
                error: Box::new(error),
                paused: done.paused,
            },
        }
    }

    /// Returns whether an object is the Secret of an identity that differs at the target.
    fn hangs_below(&self, node: &Node, fate: Fate, foreign: &[&Node]) -> bool {
        let outside = node.namespace.as_ref() != Some(&self.settings.namespace);
        let theirs = |other: &&Node| {
            node.owners.contains(&other.uid) || other.secret.as_deref() == Some(node.name.as_str())
        };
        fate == Fate::Copy && node.is_secret() && outside && foreign.iter().any(theirs)
    }

    async fn prepare(&self, found: &Found, steps: &[Step]) -> Result<(), Error> {
        let nodes = || steps.iter().map(|step| &found.nodes[step.at]);
        let namespaces = nodes().filter_map(|node| node.namespace.clone());
        let ends = (&self.source, &self.target);
        let lacking = ground::prepare(ends, &namespaces.collect(), self.settings).await?;
        if !lacking.is_empty() && nodes().any(names_global) {
            let labels = lacking.iter().map(|(key, value)| format!("{key}={value}"));
            let labels: Vec<String> = labels.collect();
            self.report.warn(&format!(
                "namespace {} has no label {} at the target: identities that select namespaces by it refuse it there (--copy-namespace-labels copies it)",
                self.settings.namespace,
                labels.join(", "),
            ));
        }
        Ok(())
    }

    /// Warns about what the target lacks and what is not moved.
    async fn tell(&self, found: &Found, steps: &[Step]) {
        for named in &found.missing {
            let text = format!("there is no {} {} at the source", named.kind, named.name);
            self.report.warn(&text);
        }
        if self.settings.identities == Identities::Leave {
            let nodes = steps.iter().map(|step| &found.nodes[step.at]);
            for node in nodes.filter(|node| names_global(node)) {
                if let Some(named) = &node.identity {
                    self.report.warn(&format!(
                        "{node} needs {} {} at the target, which is not copied",
                        named.kind, named.name
                    ));
                }
            }
        }
        let ends = (&self.source, &self.target);
        let namespace = &self.settings.namespace;
        let left = left_behind(&self.source, namespace, found, steps).await;
        for warnings in [zones(ends, found, steps).await, left] {
            // A failure to find out is reported, but does not stop the move.
            let warnings = warnings.unwrap_or_else(|error| vec![error.to_string()]);
            warnings.iter().for_each(|text| self.report.warn(text));
        }
    }

    fn nothing(&self) -> Error {
        Error::Nothing {
            namespace: self.settings.namespace.clone(),
            cluster: self.settings.cluster.clone(),
        }
    }
}

/// Returns whether an object references a cluster-scoped identity.
fn names_global(node: &Node) -> bool {
    node.identity
        .as_ref()
        .is_some_and(|named| named.kind != "Secret")
}

/// Returns the UIDs of objects that are not lost when the moved ones are deleted at the source.
fn safe(found: &Found, steps: &[Step], copies: &[Option<Copied>]) -> BTreeSet<String> {
    let safe = steps
        .iter()
        .zip(copies)
        .filter(|(step, copied)| step.fate == Fate::Copy || copied.is_some());
    safe.map(|(step, _)| found.nodes[step.at].uid.clone())
        .collect()
}

fn listed(found: &Found, steps: &[Step]) -> Moved {
    let names = |fate| {
        let steps = steps.iter().filter(move |step| step.fate == fate);
        steps.map(|step| found.nodes[step.at].to_string()).collect()
    };
    Moved {
        moved: names(Fate::Move),
        copied: names(Fate::Copy),
        unpaused: Vec::new(),
    }
}
