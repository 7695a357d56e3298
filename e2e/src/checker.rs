//! Checks the writers' reports and the recovered store for consistency.
//!
//! The checker remembers the state at the floor and everything since, over all crashes. It compares
//! the events of the watchers, the recovered log and what it remembers: each revision must have
//! exactly one content, without gaps. Each writer's calls are then checked by the store's own
//! history checker, against the part of the log between its opening and the next one.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use insula_store::laws::history::{History, Log, Operation};
use insula_store::{Changed, Entry, Key, Revision};

use crate::inspection::Inspection;
use crate::protocol::{Line, Opened};
use crate::run::Run;

/// The empty state is revision 1.
const FIRST: Revision = Revision::new(1);
/// The longest acceptable opening, since slow recovery delays the control plane.
const MAX_OPENING: Duration = Duration::from_secs(2);
/// Compacted history must be removed from disk. Writers keep up to two thousand revisions, some 8
/// MiB; the rest allows for writers that are killed before they compact.
const MAX_LOG_BYTES: u64 = 32 << 20;

type State = BTreeMap<Key, Entry>;
type Logged = BTreeMap<Revision, Vec<Changed>>;

/// Follows one store through its crashes.
#[derive(Debug)]
pub struct Checker {
    floor: Revision,
    at_floor: State,
    /// Everything after the floor.
    log: Logged,
    revision: Revision,
    totals: Totals,
}

/// Totals over everything checked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Writers that were killed after they had opened the store.
    pub writers: usize,
    /// Acknowledged commits.
    pub acknowledged: usize,
    /// Commits without an answer because of a crash.
    pub in_doubt: usize,
    /// Those of them that had been applied.
    pub applied: usize,
    /// Transactions delivered to watchers.
    pub events: usize,
    /// The longest opening.
    pub max_opening: Duration,
    /// The maximum size of the log on disk.
    pub max_log_bytes: u64,
    /// The maximum size of the tables on disk.
    pub max_table_bytes: u64,
}

impl Default for Checker {
    fn default() -> Self {
        Self {
            floor: Revision::ZERO,
            at_floor: State::new(),
            log: Logged::new(),
            revision: FIRST,
            totals: Totals::default(),
        }
    }
}

impl Checker {
    /// The floor at the last inspection.
    pub const fn floor(&self) -> Revision {
        self.floor
    }

    /// The revision at the last inspection.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Totals over everything checked so far.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Checks the writers that were killed one after the other since the last inspection, and the
    /// recovered store.
    pub fn check(&mut self, runs: &[Run], found: &Inspection) -> anyhow::Result<()> {
        let opened = |run| -> Option<(&Run, Opened)> { Some((run, Option::clone(&run.opened)?)) };
        let runs: Vec<_> = runs.iter().filter_map(opened).collect();
        let last = Opened {
            revision: found.revision,
            floor: found.statistics.floor,
            took: found.took,
        };
        self.check_openings(&runs, last)?;
        let log = self.merge_logs(&runs, found)?;
        let mut state = self.state_at(&self.log, self.revision);
        for (index, (run, opened)) in runs.iter().enumerate() {
            let end = runs.get(index + 1).map_or(last, |(_, next)| *next);
            check_watches(run, end.revision)?;
            let part = cut(&log, opened.revision, end.revision);
            state = check_calls(run, opened.revision, state, &part)
                .with_context(|| format!("in the writer that began at {}", opened.revision))?;
            self.count(run, &part);
        }
        self.check_states(&log, found)?;
        self.remember(log, found);
        Ok(())
    }

    /// Neither revision nor floor may go back.
    fn check_openings(&mut self, runs: &[(&Run, Opened)], last: Opened) -> anyhow::Result<()> {
        let openings = runs.iter().map(|(_, opened)| *opened).chain([last]);
        let mut least = (self.revision, self.floor);
        let mut most_floor = self.floor;
        for (index, opened) in openings.enumerate() {
            let Opened {
                revision,
                floor,
                took,
            } = opened;
            ensure!(took <= MAX_OPENING, "opening took {took:?}");
            self.totals.max_opening = self.totals.max_opening.max(took);
            ensure!(
                revision >= least.0,
                "opened at {revision} after {} was known",
                least.0
            );
            ensure!(
                floor >= least.1 && floor <= most_floor,
                "opened with the floor {floor} where it was set to between {} and {most_floor}",
                least.1
            );
            let Some((run, _)) = runs.get(index) else {
                break;
            };
            let events = run.watches.values().flat_map(|watched| &watched.events);
            let known = events.map(|(revision, _)| *revision);
            let known = known.chain(run.acknowledged()).max();
            least = (
                revision.max(known.unwrap_or_default()),
                floor.max(run.compacted),
            );
            most_floor = floor.max(run.compacting);
        }
        Ok(())
    }

    /// The log since the remembered floor, merged from all sources, which must agree.
    fn merge_logs(&self, runs: &[(&Run, Opened)], found: &Inspection) -> anyhow::Result<Logged> {
        let mut log = self.log.clone();
        let watches = runs.iter().flat_map(|(run, _)| run.watches.values());
        let events = watches.flat_map(|watched| &watched.events);
        for (revision, changes) in events.chain(&found.log) {
            let known = log.entry(*revision).or_insert_with(|| changes.clone());
            let (known, now) = (brief(*revision, known), brief(*revision, changes));
            ensure!(known == now, "what was {known:?} is now {now:?}");
        }
        ensure_consecutive(found.log.iter().map(|(revision, _)| *revision), {
            found.statistics.floor
        })
        .context("in the recovered log")?;
        let known = log.keys().copied();
        ensure_consecutive(known, self.floor).context("in the merged log")?;
        let last = log.keys().next_back().copied().unwrap_or(FIRST);
        let revision = found.revision;
        ensure!(
            last == revision,
            "the log ends at {last}, the store is at {revision}"
        );
        Ok(log)
    }

    fn check_states(&self, log: &Logged, found: &Inspection) -> anyhow::Result<()> {
        for (revision, entries) in &found.states {
            let expected = self.state_at(log, *revision);
            ensure!(
                entries.iter().eq(expected.values()),
                "the state at {revision} is {} and not {}",
                brief(*revision, &puts(entries)),
                brief(*revision, &puts(expected.values())),
            );
        }
        let bytes = found.statistics.log_bytes;
        ensure!(bytes <= MAX_LOG_BYTES, "the log takes {bytes} bytes");
        Ok(())
    }

    fn state_at(&self, log: &Logged, revision: Revision) -> State {
        let mut state = self.at_floor.clone();
        for changes in log.range(..=revision).map(|(_, changes)| changes) {
            apply(&mut state, changes);
        }
        state
    }

    fn remember(&mut self, mut log: Logged, found: &Inspection) {
        let statistics = found.statistics;
        self.at_floor = self.state_at(&log, statistics.floor);
        self.floor = statistics.floor;
        self.log = log.split_off(&self.floor.next());
        self.revision = found.revision;
        let totals = &mut self.totals;
        totals.max_log_bytes = totals.max_log_bytes.max(statistics.log_bytes);
        totals.max_table_bytes = totals.max_table_bytes.max(statistics.table_bytes);
    }

    fn count(&mut self, run: &Run, log: &Log) {
        let unanswered = |call: &&_| matches!(call, Operation::Commit(_, None));
        let acknowledged = run.acknowledged().count();
        let calls = run.calls.iter().map(|call| &call.operation);
        self.totals.writers += 1;
        self.totals.acknowledged += acknowledged;
        self.totals.in_doubt += calls.filter(unanswered).count();
        self.totals.applied += log.len() - acknowledged;
        let events = run.watches.values().map(|watched| watched.events.len());
        self.totals.events += events.sum::<usize>();
    }
}

/// Events must arrive once and in order, and only for revisions that persist.
fn check_watches(run: &Run, end: Revision) -> anyhow::Result<()> {
    for (watcher, watched) in &run.watches {
        let events = watched.events.iter().map(|(revision, _)| *revision);
        let last = events.clone().next_back().unwrap_or_default();
        ensure!(last <= end, "watcher {watcher} saw {last} after {end}");
        ensure_consecutive(events, watched.after).with_context(|| format!("watcher {watcher}"))?;
    }
    Ok(())
}

/// Checks a writer's calls and answers and returns the state it left.
fn check_calls(run: &Run, start: Revision, mut state: State, log: &Log) -> anyhow::Result<State> {
    let history = History {
        initial: state.values().cloned().collect(),
        start,
        calls: run.calls.clone(),
        log: log.clone(),
    };
    // Shortened, since the reason contains whole values.
    let shorten = |why: String| anyhow!("{why:.2000}");
    history.check().map_err(shorten)?;
    for (_, changes) in log {
        apply(&mut state, changes);
    }
    Ok(state)
}

/// Ensures that revisions are consecutive, starting right after `after`.
fn ensure_consecutive(
    revisions: impl Iterator<Item = Revision>,
    after: Revision,
) -> anyhow::Result<()> {
    let mut last = after.max(FIRST);
    for revision in revisions {
        ensure!(revision == last.next(), "{revision} comes after {last}");
        last = revision;
    }
    Ok(())
}

fn apply(state: &mut State, changes: &[Changed]) {
    for change in changes {
        match change {
            Changed::Put(entry) => state.insert(entry.key.clone(), entry.clone()),
            Changed::Deleted(key) => state.remove(key),
        };
    }
}

/// The part of the log after `start`, up to and including `end`.
fn cut(log: &Logged, start: Revision, end: Revision) -> Log {
    let part = log.range((Excluded(start), Included(end)));
    part.map(|(revision, changes)| (*revision, changes.clone()))
        .collect()
}

fn puts<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<Changed> {
    entries.into_iter().cloned().map(Changed::Put).collect()
}

/// Formats changes like the writers' protocol.
fn brief(revision: Revision, changes: &[Changed]) -> String {
    let watcher = 0;
    let changes = changes.to_vec();
    Line::Event {
        watcher,
        revision,
        changes,
    }
    .to_string()
}

#[cfg(test)]
mod tests;
