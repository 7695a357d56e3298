//! Durable writes from concurrent writers: half creations, half updates.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use insula_store::{Revision, Store, Transaction};
use tokio::task::JoinSet;

use super::keys;
use crate::figures::{Figures, Quantiles};
use crate::machine;
use crate::part::{Limits, Part};
use crate::report::{Column, Unit, grouped};
use crate::subject::{Cpu, Subject};

/// Keys in the store before the measurement.
const KEYS: usize = 100_000;

pub const COLUMNS: &[Column] = &[
    Column::new("writers", "size", Unit::Count),
    Column::new("writes/s", "rate", Unit::Count),
    Column::new("CPU per write", "write cpu", Unit::Time),
    Column::new("CPU of the caller", "write caller", Unit::Time),
    Column::new("syncs per write", "syncs", Unit::Ratio),
    Column::new("p50", "write p50", Unit::Time),
    Column::new("p50 / p50 of a sync", "syncs' latency", Unit::Ratio),
    Column::new("p99", "write p99", Unit::Time),
    Column::new("max", "write max", Unit::Time),
];

pub fn title(limits: Limits) -> String {
    let keys = grouped(KEYS.min(limits.keys));
    format!("Durable writes of 1 KiB, half creations, half updates, on {keys} keys")
}

/// Measures the raw sync right before, because the speed of the disk varies.
pub async fn measure(part: &Part) -> Result<Figures> {
    let subject = part.engine.start(&part.folder).await?;
    let keys = KEYS.min(part.limits.keys);
    keys::fill(&subject.store, keys).await?;
    let time = part.limits.time();
    let sync = Quantiles::of(machine::raw_sync(&part.folder, time)?);
    let run = run(&subject, part.size, time, keys).await?;
    let ratio = run.latency.p50.as_secs_f64() / sync.p50.as_secs_f64();
    Ok(run.figures().with("syncs' latency", ratio))
}

/// The result of a run.
pub struct Run {
    writes: usize,
    took: Duration,
    cpu: Cpu,
    syncs: u64,
    latency: Quantiles,
}

impl Run {
    pub fn figures(&self) -> Figures {
        let writes = self.writes as f64;
        Figures::default()
            .with("rate", writes / self.took.as_secs_f64())
            .with("syncs", self.syncs as f64 / writes)
            .cpu("write", self.cpu, self.writes)
            .times("write", self.latency)
    }
}

/// Writes for about `time`. New keys start at `next`.
pub async fn run(subject: &Subject, writers: usize, time: Duration, next: usize) -> Result<Run> {
    let (cpu, syncs) = (subject.cpu()?, subject.syncs()?);
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let store = Arc::clone(&subject.store);
        let first = next + writer;
        tasks.spawn(async move { write(&*store, first, writers, begun + time).await });
    }
    let mut times = vec![];
    while let Some(done) = tasks.join_next().await {
        times.extend(done??);
    }
    let took = begun.elapsed();
    Ok(Run {
        writes: times.len(),
        took,
        cpu: subject.cpu_since(cpu)?,
        syncs: subject.syncs()? - syncs,
        latency: Quantiles::of(times),
    })
}

/// Creates keys, and updates each once later.
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
