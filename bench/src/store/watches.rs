//! A thousand watchers of a thousand prefixes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use insula_store::{Changed, KeyRange, Store, Transaction, WatchItem};
use tokio::task::JoinSet;

use super::keys;
use crate::figures::{Figures, Quantiles};
use crate::part::{Limits, Part};
use crate::report::{Column, Unit, grouped};

pub const WATCHERS: usize = 1_000;
const CHANGES: usize = 50_000;
const WRITERS: usize = 16;

pub const COLUMNS: &[Column] = &[
    Column::new("watchers", "size", Unit::Count),
    Column::new("changes/s", "rate", Unit::Count),
    Column::new("CPU per change", "change cpu", Unit::Time),
    Column::new("CPU of the caller", "change caller", Unit::Time),
    Column::new("p50 from call to delivery", "delivered p50", Unit::Time),
    Column::new("p99", "delivered p99", Unit::Time),
    Column::new("max", "delivered max", Unit::Time),
];

pub fn title(limits: Limits) -> String {
    let changes = grouped(changes(limits));
    format!(
        "{changes} changes of 1 KiB by 16 writers, each delivered to one of 1,000 watchers of \
         1,000 prefixes"
    )
}

/// Returns the number of changes, the same for each watcher.
fn changes(limits: Limits) -> usize {
    let each = CHANGES.min(limits.keys) / WATCHERS;
    each.max(1) * WATCHERS
}

pub async fn measure(part: &Part) -> Result<Figures> {
    let subject = part.engine.start(&part.folder).await?;
    let store = &subject.store;
    let (start, count) = (Instant::now(), changes(part.limits));
    let mut watching = watch(store, part.size, count / WATCHERS, start).await?;
    let cpu = subject.cpu()?;
    let begun = Instant::now();
    write(store, count, start).await?;
    let mut times = vec![];
    while let Some(done) = watching.join_next().await {
        times.extend(done??);
    }
    let took = begun.elapsed();
    let figures = Figures::default()
        .with("rate", count as f64 / took.as_secs_f64())
        .cpu("change", subject.cpu_since(cpu)?, count);
    Ok(match part.size {
        0 => figures,
        _ => figures.times("delivered", Quantiles::of(times)),
    })
}

/// Starts watchers; each returns the delays of the changes that it received.
async fn watch(
    store: &Arc<dyn Store>,
    watchers: usize,
    changes: usize,
    start: Instant,
) -> Result<JoinSet<Result<Vec<Duration>>>> {
    let after = store.revision().await?;
    let mut watching = JoinSet::new();
    for tenant in 0..watchers {
        let range = KeyRange::prefix(keys::tenant_prefix(tenant));
        let mut watch = store.watch(range, after).await?;
        watching.spawn(async move {
            let mut times = vec![];
            while times.len() < changes {
                if let WatchItem::Changes { changes, .. } = watch.next().await? {
                    times.extend(changes.iter().filter_map(|change| delay(change, start)));
                }
            }
            Ok(times)
        });
    }
    Ok(watching)
}

async fn write(store: &Arc<dyn Store>, count: usize, start: Instant) -> Result<()> {
    let mut writing = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(store);
        writing.spawn(async move {
            for n in (writer..count).step_by(WRITERS) {
                let put = Transaction::create(keys::key(n), stamped(start));
                keys::commit(&*store, put).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = writing.join_next().await {
        done??;
    }
    Ok(())
}

/// Returns a value with the time of the write.
fn stamped(start: Instant) -> Bytes {
    let mut value = vec![0; keys::VALUE_BYTES];
    let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    value[..8].copy_from_slice(&nanos.to_le_bytes());
    value.into()
}

fn delay(change: &Changed, start: Instant) -> Option<Duration> {
    let Changed::Put(entry) = change else {
        return None;
    };
    let written = u64::from_le_bytes(*entry.value.first_chunk()?);
    start.elapsed().checked_sub(Duration::from_nanos(written))
}
