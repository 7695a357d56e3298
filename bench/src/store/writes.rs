//! Durable writes from many writers at once: half creations, half updates.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use insula_store::{Revision, Store, Transaction};
use tokio::task::JoinSet;

use super::keys;
use crate::report::{self, Quantiles, micros, per, progress, rate};
use crate::subject::{Engine, Subject};

/// What is there before.
const KEYS: usize = 100_000;

pub async fn measure(engines: &[Engine], seconds: u64) -> Result<()> {
    let mut rows = vec![];
    for engine in engines {
        progress(&format!("{}: filling with {KEYS} keys", engine.name()));
        let subject = engine.start().await?;
        keys::fill(&subject.store, KEYS).await?;
        let mut next = KEYS;
        for writers in [1, 16, 64, 256] {
            progress(&format!("{}: {writers} writers", engine.name()));
            let time = Duration::from_secs(seconds);
            let run = run(&subject, writers, time, &mut next).await?;
            rows.push(run.row(engine.name(), writers));
        }
    }
    report::table(
        "Durable writes of 1 KiB, half creations, half updates, on 100,000 keys",
        &[
            "engine",
            "writers",
            "writes/s",
            "CPU per write",
            "syncs per write",
            "p50",
            "p99",
            "max",
        ],
        &rows,
    );
    Ok(())
}

pub struct Run {
    pub writes: usize,
    pub took: Duration,
    pub cpu: Duration,
    pub syncs: Option<u64>,
    pub latency: Quantiles,
}

impl Run {
    fn row(&self, engine: &str, writers: usize) -> Vec<String> {
        let syncs = self.syncs.map_or("-".to_owned(), |syncs| {
            format!("{:.3}", syncs as f64 / self.writes as f64)
        });
        vec![
            engine.to_owned(),
            writers.to_string(),
            rate(self.writes, self.took),
            per(self.cpu, self.writes),
            syncs,
            micros(self.latency.p50),
            micros(self.latency.p99),
            micros(self.latency.max),
        ]
    }
}

/// Writes for about `time`. New keys begin at `next`.
pub async fn run(
    subject: &Subject,
    writers: usize,
    time: Duration,
    next: &mut usize,
) -> Result<Run> {
    let (cpu, syncs) = (subject.cpu_time()?, subject.syncs());
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let store = Arc::clone(&subject.store);
        let first = *next + writer;
        tasks.spawn(async move { write(&*store, first, writers, begun + time).await });
    }
    let mut times = vec![];
    while let Some(done) = tasks.join_next().await {
        times.extend(done??);
    }
    let took = begun.elapsed();
    *next += times.len() + writers;
    let syncs = subject
        .syncs()
        .zip(syncs)
        .map(|(after, before)| after - before);
    Ok(Run {
        writes: times.len(),
        took,
        cpu: subject.cpu_time()?.saturating_sub(cpu),
        syncs,
        latency: Quantiles::of(times),
    })
}

/// Creates keys, and updates each once some time after.
async fn write(
    store: &dyn Store,
    first: usize,
    step: usize,
    until: Instant,
) -> Result<Vec<Duration>> {
    let mut times = vec![];
    let mut created: Vec<(usize, Revision)> = vec![];
    let mut n = first;
    while Instant::now() < until {
        let begun = Instant::now();
        let revision = keys::commit(
            store,
            Transaction::create(keys::key(n), keys::value(n as u64)),
        )
        .await?;
        times.push(begun.elapsed());
        created.push((n, revision));
        n += step;
        let (old, at) = created.swap_remove(times.len() * 7 % created.len());
        let begun = Instant::now();
        let value = keys::value(!(old as u64));
        keys::commit(store, Transaction::update(keys::key(old), at, value)).await?;
        times.push(begun.elapsed());
    }
    Ok(times)
}
