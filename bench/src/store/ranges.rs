//! Reading ranges.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use insula_store::{At, KeyRange, Store};

use super::keys;
use crate::report::{self, Quantiles, micros, per, progress};
use crate::subject::Engine;

const KEYS: usize = 100_000;
const RANGE: usize = 5_000;
const TIMES: usize = 40;

pub async fn measure(engines: &[Engine]) -> Result<()> {
    let mut rows = vec![];
    for engine in engines {
        progress(&format!("{}: ranges", engine.name()));
        let subject = engine.start().await?;
        keys::fill(&subject.store, KEYS).await?;
        let store: &Arc<dyn Store> = &subject.store;
        let all = KeyRange::all();
        let (cpu, mut times) = (subject.cpu_time()?, vec![]);
        for _ in 0..TIMES {
            let begun = Instant::now();
            let page = store
                .range(&all, At::Latest, NonZeroUsize::new(RANGE))
                .await?;
            times.push(begun.elapsed());
            ensure!(page.entries.len() == RANGE && page.more, "a short page");
        }
        let cpu = subject.cpu_time()?.saturating_sub(cpu);
        let ranges = Quantiles::of(times);
        let (get_cpu, mut times) = (subject.cpu_time()?, vec![]);
        for n in 0..20_000 {
            let begun = Instant::now();
            let found = store.get(&keys::key(n * 7 % KEYS)).await?;
            times.push(begun.elapsed());
            ensure!(found.is_some(), "a missing key");
        }
        let get_cpu = subject.cpu_time()?.saturating_sub(get_cpu);
        let gets = Quantiles::of(times);
        rows.push(vec![
            engine.name().to_owned(),
            micros(ranges.p50),
            micros(ranges.p99),
            per(cpu, TIMES),
            micros(gets.p50),
            micros(gets.p99),
            per(get_cpu, 20_000),
        ]);
    }
    report::table(
        "Reading, of 100,000 keys: a range of 5,000, and single keys",
        &[
            "engine",
            "range p50",
            "range p99",
            "CPU per range",
            "get p50",
            "get p99",
            "CPU per get",
        ],
        &rows,
    );
    Ok(())
}
