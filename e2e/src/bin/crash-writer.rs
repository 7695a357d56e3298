//! Writes to an embedded store as fast as possible and prints each step until it is killed:
//! `crash-writer FOLDER SEED AFTER`. The output format is in `protocol`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use insula_e2e::content::Content;
use insula_e2e::inspection::TINY_OPTIONS;
use insula_e2e::protocol::{Line, Opened};
use insula_store::embedded::Embedded;
use insula_store::laws::model::Rng;
use insula_store::{Expect, Key, KeyRange, Revision, Store, Transaction, WatchItem};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracing_subscriber::filter::LevelFilter;

const WRITERS: u64 = 8;
const KEYS: u64 = 900;
/// The interval between compactions.
const COMPACT_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum distance of a new floor behind the printed events.
const MAX_KEPT: u64 = 2000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let speaker = Printer::default();
    let mut arguments = std::env::args_os().skip(1);
    let folder: PathBuf = arguments.next().context("no folder is named")?.into();
    let mut number = || -> anyhow::Result<u64> {
        let argument = arguments.next().context("a number is missing")?;
        Ok(argument.to_string_lossy().parse()?)
    };
    let (seed, after) = (number()?, Revision::new(number()?));
    let logged = speaker.clone();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::ERROR)
        .with_writer(move || logged.clone())
        .init();
    let done = match work(folder, seed, after, &speaker).await {
        Ok(()) => "a task has ended".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    speaker.print(&Line::Failed(done));
    Ok(())
}

/// Opens the store and works on it; returns only on failure.
async fn work(
    folder: PathBuf,
    seed: u64,
    after: Revision,
    speaker: &Printer,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let store = Embedded::open(&folder, TINY_OPTIONS).await?;
    let opened = Opened {
        revision: store.revision().await?,
        floor: store.statistics().floor,
        took: began.elapsed(),
    };
    speaker.print(&Line::Opened(opened));
    let starts = [opened.revision, after];
    let desk = Arc::new(Shared {
        store,
        speaker: speaker.clone(),
        calls: AtomicU64::new(0),
        events: starts.map(|start| AtomicU64::new(start.get())),
    });
    let mut tasks = JoinSet::new();
    for (watcher, start) in starts.into_iter().enumerate() {
        tasks.spawn(Arc::clone(&desk).watch(watcher, start));
    }
    let mut dice = Rng::new(seed);
    for _ in 0..WRITERS {
        tasks.spawn(Arc::clone(&desk).write(Rng::new(dice.next_u64())));
    }
    tasks.spawn(Arc::clone(&desk).compact(Rng::new(dice.next_u64())));
    tasks.join_next().await.context("there are tasks")??
}

/// The state shared by all tasks.
struct Shared {
    store: Embedded,
    speaker: Printer,
    calls: AtomicU64,
    /// The revision up to which each watcher has printed its events.
    events: [AtomicU64; 2],
}

impl Shared {
    async fn watch(self: Arc<Self>, watcher: usize, after: Revision) -> anyhow::Result<()> {
        self.speaker.print(&Line::Watching { watcher, after });
        let mut watch = self.store.watch(KeyRange::all(), after).await?;
        loop {
            if let WatchItem::Changes { revision, changes } = watch.next().await? {
                self.speaker.print(&Line::Event {
                    watcher,
                    revision,
                    changes,
                });
                self.events[watcher].store(revision.get(), Ordering::Release);
            }
        }
    }

    async fn write(self: Arc<Self>, mut dice: Rng) -> anyhow::Result<()> {
        loop {
            let transaction = self.transaction(&mut dice).await?;
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            self.speaker.print(&Line::Request {
                call,
                transaction: transaction.clone(),
            });
            let outcome = self.store.commit(transaction).await?;
            self.speaker.print(&Line::Response { call, outcome });
        }
    }

    /// A transaction that mostly succeeds: it expects the current or, now and then, an earlier
    /// state.
    async fn transaction(&self, dice: &mut Rng) -> anyhow::Result<Transaction> {
        let first = dice.below(KEYS);
        let key = key(first);
        let current = self.store.get(&key).await?;
        let expect = match (current, dice.below(10)) {
            (Some(entry), 0) => Expect::At(entry.modified.previous()),
            (None, 0) => return Ok(Transaction::new().delete(key)),
            (Some(entry), _) => Expect::At(entry.modified),
            (None, _) => Expect::Absent,
        };
        let mut transaction = Transaction::new().check(key, expect);
        let changed = match dice.below(4) {
            0 => 2 + dice.below(4),
            _ => 1,
        };
        for offset in 0..changed {
            let key = self::key((first + offset * 17) % KEYS);
            transaction = match dice.below(5) {
                0 => transaction.delete(key),
                _ => transaction.put(key, Content::random(dice).bytes()),
            };
        }
        Ok(transaction)
    }

    /// Compacts, but never past what both watchers have printed: the parent then knows everything
    /// that is no longer in the log after a crash.
    async fn compact(self: Arc<Self>, mut dice: Rng) -> anyhow::Result<()> {
        let mut ticks = tokio::time::interval(COMPACT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let events = self
                .events
                .iter()
                .map(|events| events.load(Ordering::Acquire));
            let least = events.min().unwrap_or_default();
            let floor = Revision::new(least.saturating_sub(dice.below(MAX_KEPT)));
            if floor > self.store.statistics().floor {
                self.speaker.print(&Line::Compacting(floor));
                self.store.compact(floor).await?;
                self.speaker.print(&Line::Compacted(floor));
            }
        }
    }
}

fn key(number: u64) -> Key {
    Bytes::from(format!("/crash/{number:03}"))
}

/// Prints lines one at a time, each complete and flushed.
#[derive(Clone, Default)]
struct Printer(Arc<Mutex<u64>>);

impl Printer {
    fn print(&self, line: &Line) {
        let text = line.to_string();
        let mut number = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let said = io::stdout().write_all(format!("{number} {text}\n").as_bytes());
        if said.is_err() {
            // The parent has closed the pipe.
            std::process::exit(1);
        }
    }
}

/// Errors logged by the store are failures, since its threads cannot report them otherwise.
impl Write for Printer {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event).trim().to_owned();
        self.print(&Line::Failed(text));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
