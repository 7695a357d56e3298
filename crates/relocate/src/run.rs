//! The order of a move.
//!
//! ```text
//! connect    to both servers, and discover their kinds
//! release    at the target what an earlier run has moved
//! plan       from the objects at the source
//! check      whether clusters can be moved, and whether the target can take them
//! pause      at the source, with a mark that names source and target
//! wait       until controllers have paused and no object blocks the move
//! hold       at the source what no cluster pauses; check again
//! copy       to the target, owners first; paused clusters stay paused there
//! remove     from the source, owners last
//! release    at the target, and remove the mark
//! ```
//!
//! `target` has the checks of the target.
//!
//! Every step finds out what was done before, so a move that was killed is resumed by running it
//! again. Until the last object has left the source, clusters are paused at both servers; what
//! has left the source is at the target. A move that fails before a cluster was copied unpauses
//! at the source what it has paused.

mod target;

use std::collections::BTreeSet;

use insula_operator::report::Report;
use kube::Client;
use kube::ResourceExt;
use kube::api::DynamicObject;
use tokio::time::{Instant, sleep};

use crate::check::Checks;
use crate::copy::{Copied, Existing, MAX_ATTEMPTS, UidMap, copy};
use crate::error::Error;
use crate::hold::hold;
use crate::names::CLUSTER_NAME;
use crate::namespaces;
use crate::not_moved::{left_behind, missing_at_target, secrets_not_copied};
use crate::observe::{Observed, observe};
use crate::pause::{blocked, pause, unconfirmed};
use crate::plan::{Disposition, Node, Selection, Step, plan};
use crate::release::{release_at_source, release_at_target};
use crate::remove::{Removed, remove};
use crate::server::Server;
use crate::settings::{Identities, Settings};

/// The objects that were moved, or would be, each as kind, namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Objects that are at the target now, and no longer at the source.
    pub moved: Vec<String>,
    /// Objects that are at both servers.
    pub copied: Vec<String>,
    /// Objects that were unpaused at the target: clusters, classes, and what no cluster pauses.
    pub unpaused: Vec<String>,
}

/// Moves clusters from one server, or space, to another.
pub async fn relocate(
    source: &Client,
    target: &Client,
    settings: &Settings,
    report: &dyn Report,
) -> Result<Moved, Error> {
    let relocation = Move::connect(source, target, settings, report).await?;
    match relocation.run().await {
        Ok(moved) => Ok(moved),
        Err(error) => Err(relocation.release_at_source(error).await),
    }
}

/// Returns what would be moved and reports what prevents it, without writing anything.
pub async fn preview(
    source: &Client,
    target: &Client,
    settings: &Settings,
    report: &dyn Report,
) -> Result<Moved, Error> {
    let relocation = Move::connect(source, target, settings, report).await?;
    let (found, steps) = relocation.plan().await?;
    if steps.is_empty() {
        return Err(relocation.nothing_to_move());
    }
    if let Err(error) = relocation.check(&found, &steps).await {
        report.warn(&error.to_string());
    }
    relocation.report_warnings(&found, &steps).await;
    Ok(summarize(&found, &steps))
}

/// A move between two servers.
struct Move<'a> {
    source: Server,
    target: Server,
    settings: &'a Settings,
    report: &'a dyn Report,
    /// The UIDs of source and target, as annotated on clusters that are being moved.
    mark: String,
}

/// A check that returns why an object cannot be moved or copied.
type Check = fn(&Checks<'_>, &Node, &DynamicObject) -> Option<String>;

/// The copies, by the index of their step, and their names.
struct CopyPass {
    copies: Vec<Option<Copied>>,
    summary: Moved,
}

impl<'a> Move<'a> {
    async fn connect(
        source: &Client,
        target: &Client,
        settings: &'a Settings,
        report: &'a dyn Report,
    ) -> Result<Self, Error> {
        let providers = settings.providers;
        let source = Server::connect(source, "source", providers).await?;
        let target = Server::connect(target, "target", providers).await?;
        if source.uid == target.uid {
            return Err(Error::SameServer);
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

    fn checks(&self) -> Checks<'_> {
        Checks {
            mark: &self.mark,
            providers: self.settings.providers,
        }
    }

    async fn run(&self) -> Result<Moved, Error> {
        let before = self.release_at_target().await?;
        let (found, steps) = self.plan().await?;
        let mut moved = Moved::default();
        if !steps.is_empty() {
            self.check(&found, &steps).await?;
            self.report_warnings(&found, &steps).await;
            self.pause(&found, &steps).await?;
            let (found, steps, pass) = self.copy_all().await?;
            self.remove_all(&found, &steps, &pass.copies).await?;
            moved = pass.summary;
        }
        moved.unpaused = before;
        moved.unpaused.extend(self.release_at_target().await?);
        match moved == Moved::default() {
            true => Err(self.nothing_to_move()),
            false => Ok(moved),
        }
    }

    async fn plan(&self) -> Result<(Observed, Vec<Step>), Error> {
        let found = observe(&self.source, self.settings).await?;
        let selection = Selection {
            namespace: &self.settings.namespace,
            cluster: self.settings.cluster.as_deref(),
        };
        let steps = plan(&found.nodes, selection)?;
        Ok((found, steps))
    }

    async fn check(&self, found: &Observed, steps: &[Step]) -> Result<(), Error> {
        self.ensure_movable(found, steps, |checks, node, object| {
            checks.move_obstacle(node, object)
        })?;
        self.ensure_kinds_served(found, steps)?;
        self.ensure_names_free(found, steps).await?;
        self.ensure_secrets_suitable(found, steps).await
    }

    /// Fails if a moved object does not pass the check.
    fn ensure_movable(&self, found: &Observed, steps: &[Step], check: Check) -> Result<(), Error> {
        let checks = self.checks();
        let moved = steps
            .iter()
            .filter(|step| step.disposition == Disposition::Move);
        let obstacles = moved.filter_map(|step| {
            let (node, object) = (&found.nodes[step.at], &found.objects[step.at]);
            check(&checks, node, &object.content)
        });
        let obstacles: Vec<String> = obstacles.collect();
        match obstacles.is_empty() {
            true => Ok(()),
            false => Err(Error::NotMovable(obstacles)),
        }
    }

    async fn pause(&self, found: &Observed, steps: &[Step]) -> Result<(), Error> {
        for step in steps
            .iter()
            .filter(|step| step.disposition == Disposition::Move)
        {
            let node = &found.nodes[step.at];
            if node.is_cluster() || node.is_class() {
                let kind = &found.objects[step.at].kind;
                pause(&self.source, node, kind, self.checks()).await?;
                self.report.done(&format!("paused {node} at the source"));
            }
        }
        Ok(())
    }

    /// Waits until everything that is moved is paused and not blocked, and returns the plan.
    async fn await_paused(&self) -> Result<(Observed, Vec<Step>), Error> {
        let deadline = Instant::now() + self.settings.timeout;
        let after = self.settings.timeout;
        let mut reported = false;
        loop {
            let (found, steps) = self.plan().await?;
            let unpaused = unconfirmed(&found, &steps, self.settings);
            let blocked = blocked(&found, &steps);
            let waiting = match (unpaused.is_empty(), blocked.is_empty()) {
                (true, true) if Instant::now() < deadline && self.hold(&found, &steps).await? => {
                    continue;
                }
                (true, true) => {
                    self.ensure_movable(&found, &steps, |checks, node, object| {
                        checks.copy_obstacle(node, object)
                    })?;
                    return Ok((found, steps));
                }
                (false, _) => unpaused,
                (true, false) => blocked.clone(),
            };
            if Instant::now() >= deadline {
                return Err(match blocked.is_empty() {
                    true => Error::PauseTimeout { after, waiting },
                    false => Error::BlockTimeout { after, waiting },
                });
            }
            if !reported {
                self.report
                    .begin(&format!("waiting for {}", waiting.join(", ")));
                reported = true;
            }
            sleep(self.settings.poll_interval).await;
        }
    }

    /// Pauses the moved objects that no cluster pauses. Returns whether there were any, which have
    /// to be read again.
    async fn hold(&self, found: &Observed, steps: &[Step]) -> Result<bool, Error> {
        let mut any = false;
        for step in steps
            .iter()
            .filter(|step| step.disposition == Disposition::Move)
        {
            let (node, object) = (&found.nodes[step.at], &found.objects[step.at]);
            if hold(&self.source, node, object, self.checks()).await? {
                self.report.done(&format!("paused {node} at the source"));
                any = true;
            }
        }
        Ok(any)
    }

    /// Copies until the source has no objects that were not copied.
    async fn copy_all(&self) -> Result<(Observed, Vec<Step>, CopyPass), Error> {
        let (mut found, mut steps) = self.await_paused().await?;
        self.ensure_kinds_served(&found, &steps)?;
        self.prepare_namespaces(&found, &steps).await?;
        for _ in 0..MAX_ATTEMPTS {
            let pass = self.copy_once(&found, &steps).await?;
            let (next, more) = self.await_paused().await?;
            let here: BTreeSet<String> = more
                .iter()
                .map(|step| next.nodes[step.at].uid.clone())
                .collect();
            if here.is_subset(&safe_uids(&found, &steps, &pass.copies)) {
                self.ensure_names_free(&next, &more).await?;
                return Ok((found, steps, pass));
            }
            (found, steps) = (next, more);
        }
        let what = format!("namespace {}", self.settings.namespace);
        Err(Error::KeepsChanging { what })
    }

    async fn copy_once(&self, found: &Observed, steps: &[Step]) -> Result<CopyPass, Error> {
        let (mut known, mut foreign) = (UidMap::new(), Vec::new());
        let (mut copies, mut summary) = (Vec::new(), summarize(found, steps));
        for step in steps {
            let node = &found.nodes[step.at];
            let copied =
                match self.is_secret_of_differing_identity(node, step.disposition, &foreign) {
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
        Ok(CopyPass { copies, summary })
    }

    async fn copy_one(
        &self,
        found: &Observed,
        step: &Step,
        known: &UidMap,
    ) -> Result<Option<Copied>, Error> {
        let existing = match step.disposition {
            Disposition::Move => Existing::Update,
            Disposition::Copy => Existing::Leave,
        };
        let (node, kind) = (&found.nodes[step.at], &found.objects[step.at].kind);
        let servers = (&self.source, &self.target);
        let copied = copy(servers, self.checks(), node, kind, known, existing).await?;
        if copied.is_some() {
            self.report.done(&format!("copied {node} to the target"));
        }
        Ok(copied)
    }

    /// Deletes the moved objects at the source. One that has changed meanwhile is copied again.
    async fn remove_all(
        &self,
        found: &Observed,
        steps: &[Step],
        copies: &[Option<Copied>],
    ) -> Result<(), Error> {
        let uids = steps.iter().zip(copies).filter_map(|(step, copied)| {
            let uid = copied.as_ref()?.uid.clone();
            Some((found.nodes[step.at].uid.clone(), uid))
        });
        let known: UidMap = uids.collect();
        for (step, copied) in steps.iter().zip(copies).rev() {
            let Some(copied) = copied
                .as_ref()
                .filter(|_| step.disposition == Disposition::Move)
            else {
                continue;
            };
            self.ensure_still_paused(found, steps, step).await?;
            self.remove_one(found, step, copied, &known).await?;
        }
        Ok(())
    }

    /// Fails if the object's cluster was unpaused: its controllers would create what is removed
    /// again, and it would exist twice.
    async fn ensure_still_paused(
        &self,
        found: &Observed,
        steps: &[Step],
        step: &Step,
    ) -> Result<(), Error> {
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
        let here = here.map_err(Error::failed_to(attempted))?;
        match here.and_then(|here| self.checks().copy_obstacle(node, &here)) {
            Some(obstacle) => Err(Error::NotMovable(vec![obstacle])),
            None => Ok(()),
        }
    }

    async fn remove_one(
        &self,
        found: &Observed,
        step: &Step,
        copied: &Copied,
        known: &UidMap,
    ) -> Result<(), Error> {
        let (node, kind) = (&found.nodes[step.at], &found.objects[step.at].kind);
        let mut version = copied.version.clone();
        for _ in 0..MAX_ATTEMPTS {
            if remove(&self.source, node, kind, &version).await? == Removed::Gone {
                self.report.done(&format!("deleted {node} at the source"));
                return Ok(());
            }
            let servers = (&self.source, &self.target);
            let again = copy(servers, self.checks(), node, kind, known, Existing::Update).await?;
            let Some(again) = again else {
                return Ok(());
            };
            version = again.version;
        }
        let what = node.to_string();
        Err(Error::KeepsChanging { what })
    }

    async fn release_at_target(&self) -> Result<Vec<String>, Error> {
        let servers = (&self.source, &self.target);
        let released = release_at_target(servers, self.settings, &self.mark).await?;
        for name in &released {
            self.report.done(&format!("unpaused {name} at the target"));
        }
        Ok(released)
    }

    /// Rolls back at the source; returns the error, with what is still paused.
    async fn release_at_source(&self, error: Error) -> Error {
        let servers = (&self.source, &self.target);
        // If a server does not answer, what is still paused is not known.
        let Ok(done) = release_at_source(servers, self.settings, &self.mark).await else {
            return error;
        };
        for name in &done.released {
            self.report.done(&format!("unpaused {name} at the source"));
        }
        match done.paused.is_empty() {
            true => error,
            false => Error::StillPaused {
                error: Box::new(error),
                paused: done.paused,
            },
        }
    }

    /// Returns whether an object is the Secret of an identity that differs at the target.
    fn is_secret_of_differing_identity(
        &self,
        node: &Node,
        disposition: Disposition,
        foreign: &[&Node],
    ) -> bool {
        let outside = node.namespace.as_ref() != Some(&self.settings.namespace);
        let theirs = |other: &&Node| {
            node.owners.contains(&other.uid) || other.secret.as_deref() == Some(node.name.as_str())
        };
        disposition == Disposition::Copy
            && node.is_secret()
            && outside
            && foreign.iter().any(theirs)
    }

    async fn prepare_namespaces(&self, found: &Observed, steps: &[Step]) -> Result<(), Error> {
        let nodes = || steps.iter().map(|step| &found.nodes[step.at]);
        let namespaces = nodes().filter_map(|node| node.namespace.clone());
        let servers = (&self.source, &self.target);
        let lacking = namespaces::prepare(servers, &namespaces.collect(), self.settings).await?;
        if !lacking.is_empty() && nodes().any(references_global_identity) {
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
    async fn report_warnings(&self, found: &Observed, steps: &[Step]) {
        for named in &found.missing {
            let text = format!("there is no {} {} at the source", named.kind, named.name);
            self.report.warn(&text);
        }
        if self.settings.identities == Identities::Leave {
            let nodes = steps.iter().map(|step| &found.nodes[step.at]);
            for node in nodes.filter(|node| references_global_identity(node)) {
                if let Some(named) = &node.identity {
                    self.report.warn(&format!(
                        "{node} needs {} {} at the target, which is not copied",
                        named.kind, named.name
                    ));
                }
            }
            let left = secrets_not_copied(self.settings.providers, found, steps);
            left.iter().for_each(|text| self.report.warn(text));
        }
        let servers = (&self.source, &self.target);
        let namespace = &self.settings.namespace;
        let providers = self.settings.providers;
        let missing = missing_at_target(servers, providers, found, steps).await;
        let left = left_behind(&self.source, namespace, found, steps).await;
        for warnings in [missing, left] {
            // A failure to find out is reported, but does not stop the move.
            let warnings = warnings.unwrap_or_else(|error| vec![error.to_string()]);
            warnings.iter().for_each(|text| self.report.warn(text));
        }
    }

    fn nothing_to_move(&self) -> Error {
        Error::NothingToMove {
            namespace: self.settings.namespace.clone(),
            cluster: self.settings.cluster.clone(),
        }
    }
}

/// Returns whether an object references a cluster-scoped identity.
fn references_global_identity(node: &Node) -> bool {
    node.identity
        .as_ref()
        .is_some_and(|named| named.kind != "Secret")
}

/// Returns the UIDs of objects that are not lost when the moved ones are deleted at the source.
fn safe_uids(found: &Observed, steps: &[Step], copies: &[Option<Copied>]) -> BTreeSet<String> {
    let safe = steps
        .iter()
        .zip(copies)
        .filter(|(step, copied)| step.disposition == Disposition::Copy || copied.is_some());
    safe.map(|(step, _)| found.nodes[step.at].uid.clone())
        .collect()
}

fn summarize(found: &Observed, steps: &[Step]) -> Moved {
    let names = |disposition| {
        let steps = steps
            .iter()
            .filter(move |step| step.disposition == disposition);
        steps.map(|step| found.nodes[step.at].to_string()).collect()
    };
    Moved {
        moved: names(Disposition::Move),
        copied: names(Disposition::Copy),
        unpaused: Vec::new(),
    }
}
