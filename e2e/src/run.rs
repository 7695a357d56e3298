//! The output of one writer until it was killed.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, bail, ensure};
use insula_store::laws::history::{Call, Log, Operation, Time};
use insula_store::{Outcome, Revision};

use crate::protocol::{Line, Opened};

/// The life of one writer, as reported by itself.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// `None` if it was killed before the store was open.
    pub opened: Option<Opened>,
    /// Its commits. Those without an answer may or may not have been applied.
    pub calls: Vec<Call>,
    /// The events that its watchers received.
    pub watches: BTreeMap<usize, Watched>,
    /// The highest floor that it may have set.
    pub compacting: Revision,
    /// The highest floor that it has set.
    pub compacted: Revision,
}

/// The events of one watcher of all keys.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The revision it started after.
    pub after: Revision,
    /// The changes, in the order of arrival.
    pub events: Log,
}

impl Run {
    /// Parses the lines of a writer.
    pub fn read(lines: &[String]) -> anyhow::Result<Self> {
        let mut run = Self::default();
        let mut waiting = HashMap::new();
        for (index, text) in lines.iter().enumerate() {
            let (number, line) = text.split_once(' ').unwrap_or((text, ""));
            let moment = index as Time + 1;
            ensure!(number == moment.to_string(), "line {moment} is {text:?}");
            let line = line.parse().with_context(|| format!("in {text:?}"))?;
            run.add(moment, line, &mut waiting)
                .with_context(|| format!("in {text:?}"))?;
        }
        Ok(run)
    }

    /// `waiting` holds the positions of calls without an answer.
    fn add(
        &mut self,
        moment: Time,
        line: Line,
        waiting: &mut HashMap<u64, usize>,
    ) -> anyhow::Result<()> {
        match line {
            Line::Opened(opened) => self.opened = Some(opened),
            Line::Watching { watcher, after } => {
                let events = Log::new();
                self.watches.insert(watcher, Watched { after, events });
            }
            Line::Request { call, transaction } => {
                waiting.insert(call, self.calls.len());
                self.calls.push(Call {
                    called: moment,
                    answered: Time::MAX,
                    operation: Operation::Commit(transaction, None),
                });
            }
            Line::Response { call, outcome } => {
                let asked = waiting.remove(&call).context("no such request")?;
                let call = &mut self.calls[asked];
                call.answered = moment;
                if let Operation::Commit(_, answer) = &mut call.operation {
                    *answer = Some(outcome);
                }
            }
            Line::Event {
                watcher,
                revision,
                changes,
            } => {
                let watched = self.watches.get_mut(&watcher).context("no such watcher")?;
                watched.events.push((revision, changes));
            }
            Line::Compacting(floor) => self.compacting = self.compacting.max(floor),
            Line::Compacted(floor) => self.compacted = self.compacted.max(floor),
            Line::Failed(why) => bail!("the writer failed: {why}"),
        }
        Ok(())
    }

    /// The revisions of its acknowledged commits.
    pub fn acknowledged(&self) -> impl Iterator<Item = Revision> {
        self.calls.iter().filter_map(|call| match &call.operation {
            Operation::Commit(_, Some(Outcome::Committed(revision))) => Some(*revision),
            _ => None,
        })
    }

    /// The revision up to which the watchers together received everything, provided that everything
    /// up to the start of the second one is known.
    pub fn watched_up_to(&self) -> Option<Revision> {
        let last = |watcher| -> Option<Revision> {
            let watched: &Watched = self.watches.get(&watcher)?;
            let events = watched.events.last();
            Some(events.map_or(watched.after, |(revision, _)| *revision))
        };
        Some(last(0)?.min(last(1)?))
    }
}
