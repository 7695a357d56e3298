//! A thousand watchers of a thousand prefixes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use insula_store::{Changed, KeyRange, Transaction, WatchItem};
use tokio::task::JoinSet;

use super::keys;
use crate::report::{self, Quantiles, micros, per, progress, rate};
use crate::subject::Engine;

const WATCHERS: usize = 1_000;
const CHANGES: usize = 50_000;
const WRITERS: usize = 16;

pub async fn measure(engines: &[Engine]) -> Result<()> {
    let mut rows = vec![];
    for engine in engines {
        for watchers in [0, WATCHERS] {
            progress(&format!("{}: {watchers} watchers", engine.name()));
            rows.push(run(*engine, watchers).await?);
        }
    }
    report::table(
        "50,000 changes of 1 KiB by 16 writers, each told to one of 1,000 watchers of 1,000 prefixes",
        &[
            "engine",
            "watchers",
            "changes/s",
            "CPU per change",
            "p50 from call to told",
            "p99",
            "max",
        ],
        &rows,
    );
    Ok(())
}

async fn run(engine: Engine, watchers: usize) -> Result<Vec<String>> {
    let subject = engine.start().await?;
    let store = &subject.store;
    let after = store.revision().await?;
    let start = Instant::now();
    let mut watching = JoinSet::new();
    for tenant in 0..watchers {
        let range = KeyRange::prefix(keys::tenant_prefix(tenant));
        let mut watch = store.watch(range, after).await?;
        watching.spawn(async move {
            let mut times = vec![];
            while times.len() < CHANGES / WATCHERS {
                if let WatchItem::Changes { changes, .. } = watch.next().await? {
                    times.extend(changes.iter().filter_map(|change| delay(change, start)));
                }
            }
            anyhow::Ok(times)
        });
    }
    let cpu = subject.cpu_time()?;
    let begun = Instant::now();
    let mut writing = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(store);
        writing.spawn(async move {
            for n in (writer..CHANGES).step_by(WRITERS) {
                let put = Transaction::create(keys::key(n), stamped(start));
                keys::commit(&*store, put).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = writing.join_next().await {
        done??;
    }
    let mut times = vec![];
    while let Some(done) = watching.join_next().await {
        times.extend(done??);
    }
    let took = begun.elapsed();
    let cpu = subject.cpu_time()?.saturating_sub(cpu);
    let delays = Quantiles::of(times);
    Ok(vec![
        engine.name().to_owned(),
        watchers.to_string(),
        rate(CHANGES, took),
        per(cpu, CHANGES),
        micros(delays.p50),
        micros(delays.p99),
        micros(delays.max),
    ])
}

/// A value that says when it was written.
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
