//! Reads of ranges and single keys.

use std::num::NonZeroUsize;
use std::time::Instant;

use anyhow::{Result, ensure};
use insula_store::{At, KeyRange};

use super::keys;
use crate::figures::{Figures, Quantiles};
use crate::part::{Limits, Part};
use crate::report::{Column, Unit, grouped};
use crate::subject::Subject;

const KEYS: usize = 100_000;
const RANGE: usize = 5_000;
const RANGES: usize = 40;
const GETS: usize = 20_000;

pub const COLUMNS: &[Column] = &[
    Column::new("range p50", "range p50", Unit::Time),
    Column::new("range p99", "range p99", Unit::Time),
    Column::new("CPU per range", "range cpu", Unit::Time),
    Column::new("CPU of the caller", "range caller", Unit::Time),
    Column::new("get p50", "get p50", Unit::Time),
    Column::new("get p99", "get p99", Unit::Time),
    Column::new("CPU per get", "get cpu", Unit::Time),
    Column::new("CPU of the caller", "get caller", Unit::Time),
];

pub fn title(limits: Limits) -> String {
    let (keys, range) = (grouped(keys(limits)), grouped(RANGE));
    format!("Reading, of {keys} keys: a range of {range}, and single keys")
}

pub fn keys(limits: Limits) -> usize {
    // The range must not be the whole store.
    KEYS.min(limits.keys).max(RANGE + 1)
}

pub async fn measure(part: &Part) -> Result<Figures> {
    let subject = part.engine.start(&part.folder).await?;
    keys::fill(&subject.store, part.size).await?;
    let figures = ranges(&subject, Figures::default()).await?;
    gets(&subject, part.size, figures).await
}

async fn ranges(subject: &Subject, figures: Figures) -> Result<Figures> {
    let (cpu, mut times) = (subject.cpu()?, vec![]);
    let (all, limit) = (KeyRange::all(), NonZeroUsize::new(RANGE));
    for _ in 0..RANGES {
        let begun = Instant::now();
        let page = subject.store.range(&all, At::Latest, limit).await?;
        times.push(begun.elapsed());
        ensure!(page.entries.len() == RANGE && page.more, "a short page");
    }
    Ok(figures
        .times("range", Quantiles::of(times))
        .cpu("range", subject.cpu_since(cpu)?, RANGES))
}

async fn gets(subject: &Subject, keys: usize, figures: Figures) -> Result<Figures> {
    let (cpu, mut times) = (subject.cpu()?, vec![]);
    for n in 0..GETS {
        let begun = Instant::now();
        let found = subject.store.get(&keys::key(n * 7 % keys)).await?;
        times.push(begun.elapsed());
        ensure!(found.is_some(), "a missing key");
    }
    Ok(figures
        .times("get", Quantiles::of(times))
        .cpu("get", subject.cpu_since(cpu)?, GETS))
}
