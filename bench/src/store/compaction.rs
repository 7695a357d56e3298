//! Do writers notice compaction?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use insula_store::Store;

use super::{keys, writes};
use crate::report::{self, megabytes, micros, progress, rate};
use crate::subject::Engine;

const KEYS: usize = 20_000;
const WRITERS: usize = 64;

pub async fn measure(engines: &[Engine], seconds: u64) -> Result<()> {
    let mut rows = vec![];
    for engine in engines {
        for compacting in [false, true] {
            progress(&format!("{}: compacting: {compacting}", engine.name()));
            let subject = engine.start().await?;
            keys::fill(&subject.store, KEYS).await?;
            let stop = Arc::new(AtomicBool::new(!compacting));
            let compactor = tokio::spawn(compact(Arc::clone(&subject.store), Arc::clone(&stop)));
            let mut next = KEYS;
            let time = Duration::from_secs(seconds * 2);
            let run = writes::run(&subject, WRITERS, time, &mut next).await?;
            stop.store(true, Ordering::Relaxed);
            let times = compactor.await??;
            rows.push(vec![
                engine.name().to_owned(),
                times.to_string(),
                rate(run.writes, run.took),
                micros(run.latency.p50),
                micros(run.latency.p99),
                micros(run.latency.max),
                megabytes(subject.disk_usage()?),
            ]);
        }
    }
    report::table(
        "64 writers while history is compacted once a second",
        &[
            "engine",
            "compactions",
            "writes/s",
            "p50",
            "p99",
            "longest wait",
            "disk",
        ],
        &rows,
    );
    Ok(())
}

/// Once a second: forgets what is older than that.
async fn compact(store: Arc<dyn Store>, stop: Arc<AtomicBool>) -> Result<usize> {
    let mut times = 0;
    let mut floor = store.revision().await?;
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.compact(floor).await?;
        floor = store.revision().await?;
        times += 1;
    }
    Ok(times)
}
