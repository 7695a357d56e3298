//! The effect of compaction on writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use insula_store::Store;

use super::{keys, writes};
use crate::figures::Figures;
use crate::part::Part;
use crate::report::{Column, Unit};

const KEYS: usize = 20_000;
const WRITERS: usize = 64;
/// The interval of compactions; less in shorter measurements.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(1);

pub const TITLE: &str = "64 writers while history is compacted once a second, or never";

pub const COLUMNS: &[Column] = &[
    Column::new("compactions", "compactions", Unit::Count),
    Column::new("writes/s", "rate", Unit::Count),
    Column::new("p50", "write p50", Unit::Time),
    Column::new("p99", "write p99", Unit::Time),
    Column::new("longest wait", "write max", Unit::Time),
    Column::new("disk", "disk", Unit::Bytes),
];

pub async fn measure(part: &Part) -> Result<Figures> {
    let subject = part.engine.start(&part.folder).await?;
    let keys = KEYS.min(part.limits.keys);
    keys::fill(&subject.store, keys).await?;
    let stop = Arc::new(AtomicBool::new(part.size == 0));
    let time = part.limits.time() * 2;
    let store = Arc::clone(&subject.store);
    let compactor = tokio::spawn(compact(
        store,
        COMPACTION_INTERVAL.min(time / 4),
        Arc::clone(&stop),
    ));
    let run = writes::run(&subject, WRITERS, time, keys).await?;
    stop.store(true, Ordering::Relaxed);
    let compactions = compactor.await??;
    Ok(run
        .figures()
        .with("compactions", compactions as f64)
        .with("disk", subject.disk_usage()? as f64))
}

/// Compacts repeatedly, each time up to the revision of the previous round.
async fn compact(store: Arc<dyn Store>, every: Duration, stop: Arc<AtomicBool>) -> Result<usize> {
    let mut times = 0;
    let mut floor = store.revision().await?;
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(every).await;
        store.compact(floor).await?;
        floor = store.revision().await?;
        times += 1;
    }
    Ok(times)
}
