//! The state of the store's directory after a writer was killed.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use insula_store::embedded::{Embedded, Options, Statistics};
use insula_store::laws::history::Log;
use insula_store::laws::model::Rng;
use insula_store::{At, Entry, Error, KeyRange, Revision, Store, Watch, WatchItem};
use tokio::time::timeout;

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Limits so small that within a second of writing, log segments are filled and removed, memory
/// tables sealed and written, and tables merged. A log size of 0 means the minimum.
pub const TINY_OPTIONS: Options = Options {
    segment_bytes: 0,
    memory_bytes: 64 << 10,
    cache_bytes: 256 << 10,
};

/// Everything that the store can still read.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// How long opening took.
    pub took: Duration,
    /// The store's revision.
    pub revision: Revision,
    /// The disk usage and the compaction floor.
    pub statistics: Statistics,
    /// Every change since the floor.
    pub log: Log,
    /// The state at three revisions: at the floor, at one in between, and at the latest.
    pub states: Vec<(Revision, Vec<Entry>)>,
}

/// Opens the store in `folder`, reads all of it and closes it.
pub async fn inspect(folder: &Path, dice: &mut Rng) -> anyhow::Result<Inspection> {
    let began = Instant::now();
    let store = timeout(TIMEOUT, Embedded::open(folder, TINY_OPTIONS)).await;
    let store = store.context("opening takes forever")?.context("opening")?;
    let took = began.elapsed();
    let read = timeout(TIMEOUT, read(&store, took, dice)).await;
    let found = read.context("reading takes forever")??;
    let closed = timeout(TIMEOUT, store.close()).await;
    closed.context("closing takes forever")?;
    Ok(found)
}

async fn read(store: &Embedded, took: Duration, dice: &mut Rng) -> anyhow::Result<Inspection> {
    let revision = store.revision().await?;
    let statistics = store.statistics();
    let floor = statistics.floor;
    let mut watch = store.watch(KeyRange::all(), floor).await?;
    let log = read_log(&mut *watch, revision).await?;
    let between = dice.below(revision.get() - floor.get() + 1);
    let between = Revision::new(floor.get() + between);
    let mut states = Vec::new();
    for at in [floor, between, revision] {
        let page = store
            .range(&KeyRange::all(), At::Revision(at), None)
            .await?;
        ensure!(page.revision == at, "asked for {at}, read {page:?}");
        states.push((at, page.entries));
    }
    let latest = store.range(&KeyRange::all(), At::Latest, None).await?;
    states.push((latest.revision, latest.entries));
    ensure_compacted(store, floor).await?;
    Ok(Inspection {
        took,
        revision,
        statistics,
        log,
        states,
    })
}

async fn read_log(watch: &mut dyn Watch, last: Revision) -> anyhow::Result<Log> {
    let mut log = Log::new();
    loop {
        watch.request_progress().await?;
        match watch.next().await? {
            WatchItem::Changes { revision, changes } => log.push((revision, changes)),
            WatchItem::Progress(reached) => {
                ensure!(reached == last, "events end at {reached} instead of {last}");
                return Ok(log);
            }
        }
    }
}

/// Asserts that revisions below the floor can be neither read nor watched.
async fn ensure_compacted(store: &Embedded, floor: Revision) -> anyhow::Result<()> {
    if floor == Revision::ZERO {
        return Ok(());
    }
    let below = floor.previous();
    let gone = Some(Error::Compacted { floor });
    let read = store
        .range(&KeyRange::all(), At::Revision(below), None)
        .await;
    ensure!(read.as_ref().err() == gone.as_ref(), "read below: {read:?}");
    let watched = store.watch(KeyRange::all(), below).await.map(drop);
    ensure!(
        watched.as_ref().err() == gone.as_ref(),
        "watched: {watched:?}"
    );
    Ok(())
}
