//! The order of a move.
//!
//! ```text
//! meet       who is at either end, and which kinds they have
//! look       what is at the source, and what of it goes
//! check      whether clusters are fit to be moved, and the target to have them
//! pause      at the source, with a mark that says where it goes
//! settle     until controllers have paused and nobody blocks the move
//! copy       to the target, owners first; what is paused stays so there
//! remove     from the source, owners last
//! unpause    at the target, and the mark goes
//! ```
//!
//! Every step finds out what was done before, so that a move that was killed is taken up by
//! running it again. Until the last object has left the source, clusters are paused at both
//! ends; what has left is at the target.

use std::collections::BTreeSet;

use insula_operator::report::Report;
use kube::Client;
use kube::ResourceExt;
use kube::api::ListParams;
use tokio::time::{Instant, sleep};

use crate::check;
use crate::copy::{Copied, Existing, TRIES, Uids, copy};
use crate::end::End;
use crate::error::Error;
use crate::ground;
use crate::kind::Kind;
use crate::names::ORIGIN;
use crate::observe::{Found, observe};
use crate::pause::{blocked, pause, unconfirmed, unpause};
use crate::plan::{Fate, Node, Step, Trouble, Wanted, plan};
use crate::remove::{Removed, remove};
use crate::settings::{Identities, Settings};

/// What was moved, or would be. Each is a kind, a namespace and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// What is at the target now, and not at the source.
    pub moved: Vec<String>,
    /// What is at the target too.
    pub copied: Vec<String>,
    /// What goes on at the target.
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
    let (found, steps) = ways.look().await?;
    if steps.is_empty() {
        return ways.end(Moved::default()).await;
    }
    ways.check(&found, &steps).await?;
    ways.pause(&found, &steps).await?;
    let (found, steps, moved) = ways.copy_all().await?;
    ways.remove_all(&found, &steps, &moved.copies).await?;
    ways.end(moved.told).await
}

/// What would be moved; whether it could be is told, and nothing is written.
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
    Ok(listed(&found, &steps))
}

/// A move between two ends.
struct Move<'a> {
    source: End,
    target: End,
    settings: &'a Settings,
    report: &'a dyn Report,
    /// From where to where.
    mark: String,
}

/// What was copied, by the number of its step.
struct Carried {
    copies: Vec<Option<Copied>>,
    told: Moved,
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

    async fn look(&self) -> Result<(Found, Vec<Step>), Error> {
        let found = observe(&self.source, self.settings).await?;
        let wanted = Wanted {
            namespace: &self.settings.namespace,
            cluster: self.settings.cluster.as_deref(),
        };
        let steps = plan(&found.nodes, wanted).map_err(|trouble| match trouble {
            Trouble::Circle(nodes) => Error::Circle(nodes),
            Trouble::Shared(pairs) => Error::Unfit(pairs.iter().map(shared).collect()),
        })?;
        Ok((found, steps))
    }

    async fn check(&self, found: &Found, steps: &[Step]) -> Result<(), Error> {
        let moved = steps.iter().filter(|step| step.fate == Fate::Move);
        let troubles = moved.filter_map(|step| {
            let (node, object) = (&found.nodes[step.at], &found.objects[step.at]);
            check::trouble(node, &object.content, &self.mark)
        });
        let troubles: Vec<String> = troubles.collect();
        if !troubles.is_empty() {
            return Err(Error::Unfit(troubles));
        }
        self.served(found, steps)?;
        self.free(found, steps).await
    }

    /// The target has to have the kinds, in the version that the source stores.
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

    /// Nothing at the target may have the name of what is moved, but its own copy.
    async fn free(&self, found: &Found, steps: &[Step]) -> Result<(), Error> {
        let mut taken = Vec::new();
        let mut looked: BTreeSet<&str> = BTreeSet::new();
        let moved = |step: &&Step| step.fate == Fate::Move;
        for step in steps.iter().filter(moved) {
            let kind = &found.objects[step.at].kind;
            if !looked.insert(kind.resource.plural.as_str()) {
                continue;
            }
            let api = self.target.api(kind, Some(&self.settings.namespace));
            let attempted = format!("list {} at the target", kind.resource.plural);
            let there = api.list_metadata(&ListParams::default()).await;
            let there = there.map_err(Error::when(attempted))?;
            for other in steps.iter().filter(moved) {
                let node = &found.nodes[other.at];
                let is_it = node.kind == kind.resource.kind && node.group == kind.resource.group;
                let others = there
                    .items
                    .iter()
                    .filter(|there| is_it && there.name_any() == node.name);
                let mut others =
                    others.filter(|there| there.annotations().get(ORIGIN) != Some(&node.uid));
                if others.next().is_some() {
                    taken.push(node.to_string());
                }
            }
        }
        match taken.is_empty() {
            true => Ok(()),
            false => Err(Error::Taken(taken)),
        }
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

    /// What goes, when all that goes has come to rest.
    async fn settle(&self) -> Result<(Found, Vec<Step>), Error> {
        let deadline = Instant::now() + self.settings.patience;
        let after = self.settings.patience;
        let mut told = false;
        loop {
            let (found, steps) = self.look().await?;
            let unpaused = unconfirmed(&found, &steps, self.settings);
            let blocked = blocked(&found, &steps);
            let waiting = match (unpaused.is_empty(), blocked.is_empty()) {
                (true, true) => return Ok((found, steps)),
                (false, _) => unpaused,
                (true, false) => blocked.clone(),
            };
            if Instant::now() >= deadline {
                return Err(match blocked.is_empty() {
                    true => Error::Unpaused { after, waiting },
                    false => Error::Blocked { after, waiting },
                });
            }
            if !told {
                self.report
                    .begin(&format!("waiting for {}", waiting.join(", ")));
                told = true;
            }
            sleep(self.settings.look).await;
        }
    }

    /// Copies until there is nothing at the source that was not there before.
    async fn copy_all(&self) -> Result<(Found, Vec<Step>, Carried), Error> {
        let (mut found, mut steps) = self.settle().await?;
        self.tell(&found, &steps);
        self.served(&found, &steps)?;
        self.prepare(&found, &steps).await?;
        for _ in 0..TRIES {
            let carried = self.copy_once(&found, &steps).await?;
            let (next, more) = self.settle().await?;
            if uids(&next, &more).is_subset(&uids(&found, &steps)) {
                return Ok((found, steps, carried));
            }
            (found, steps) = (next, more);
        }
        let what = format!("namespace {}", self.settings.namespace);
        Err(Error::Restless { what })
    }

    async fn copy_once(&self, found: &Found, steps: &[Step]) -> Result<Carried, Error> {
        let (mut known, mut foreign) = (Uids::new(), Vec::new());
        let (mut copies, mut told) = (Vec::new(), listed(found, steps));
        for step in steps {
            let node = &found.nodes[step.at];
            let copied = match hangs_below(node, &foreign) {
                true => None,
                false => self.copy_one(found, step, &known).await?,
            };
            match &copied {
                Some(copied) => {
                    known.insert(node.uid.clone(), copied.uid.clone());
                    if copied.differs {
                        self.report.warn(&format!(
                            "{node} at the target is another than at the source, and stays as it is"
                        ));
                        foreign.push(node);
                    }
                    for owner in &copied.dropped {
                        self.report.warn(&format!(
                            "{owner} owns {node} at the source, and is not moved: nobody does at the target"
                        ));
                    }
                }
                None => told.copied.retain(|name| *name != node.to_string()),
            }
            copies.push(copied);
        }
        Ok(Carried { copies, told })
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
        let copied = copy((&self.source, &self.target), node, kind, known, existing).await?;
        if copied.is_some() {
            self.report.done(&format!("{node} is at the target"));
        }
        Ok(copied)
    }

    /// What changed since it was copied is copied again, so that nothing is lost.
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
            self.remove_one(found, step, copied, &known).await?;
        }
        Ok(())
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
                self.report.done(&format!("{node} has left the source"));
                return Ok(());
            }
            let ends = (&self.source, &self.target);
            let Some(again) = copy(ends, node, kind, known, Existing::Update).await? else {
                return Ok(());
            };
            version = again.version;
        }
        let what = node.to_string();
        Err(Error::Restless { what })
    }

    async fn end(&self, mut moved: Moved) -> Result<Moved, Error> {
        moved.unpaused = unpause(&self.target, self.settings, &self.mark).await?;
        for name in &moved.unpaused {
            self.report.done(&format!("{name} goes on at the target"));
        }
        match moved == Moved::default() {
            true => Err(self.nothing()),
            false => Ok(moved),
        }
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
                "namespace {} has no label {} at the target: identities that let it in by that refuse it there (--copy-namespace-labels copies them)",
                self.settings.namespace,
                labels.join(", "),
            ));
        }
        Ok(())
    }

    /// What is worth knowing before.
    fn tell(&self, found: &Found, steps: &[Step]) {
        for named in &found.missing {
            let text = format!("there is no {} {} at the source", named.kind, named.name);
            self.report.warn(&text);
        }
        if self.settings.identities == Identities::Leave {
            let nodes = steps.iter().map(|step| &found.nodes[step.at]);
            for node in nodes.filter(|node| names_global(node)) {
                if let Some(named) = &node.identity {
                    self.report.warn(&format!(
                        "{node} needs {} {} at the target, which is not carried there",
                        named.kind, named.name
                    ));
                }
            }
        }
    }

    fn nothing(&self) -> Error {
        Error::Nothing {
            namespace: self.settings.namespace.clone(),
            cluster: self.settings.cluster.clone(),
        }
    }
}

/// Whether it names an identity outside of its namespace.
fn names_global(node: &Node) -> bool {
    node.identity
        .as_ref()
        .is_some_and(|named| named.kind != "Secret")
}

/// Whether it belongs to one of these, which are not those of the source.
fn hangs_below(node: &Node, foreign: &[&Node]) -> bool {
    foreign.iter().any(|other| {
        node.owners.contains(&other.uid) || other.secret.as_deref() == Some(node.name.as_str())
    })
}

fn uids(found: &Found, steps: &[Step]) -> BTreeSet<String> {
    steps
        .iter()
        .map(|step| found.nodes[step.at].uid.clone())
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

fn shared((what, by): &(String, String)) -> String {
    format!("{what} belongs to {by} too, which stays")
}
