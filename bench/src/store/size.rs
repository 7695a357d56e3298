//! Memory, disk and opening time of full stores.

use std::io::Read;
use std::time::Instant;

use anyhow::Result;

use super::keys;
use crate::figures::Figures;
use crate::part::{Limits, Part, What};
use crate::report::{Column, Unit};
use crate::subject::{Subject, answers};

pub const TITLE: &str = "Full stores: memory, disk, and how long until a read is answered again";

pub const COLUMNS: &[Column] = &[
    Column::new("keys", "size", Unit::Count),
    Column::new("memory after filling", "memory", Unit::Bytes),
    Column::new("disk", "disk", Unit::Bytes),
    Column::new("opening after kill -9", "open killed", Unit::Time),
    Column::new("memory then", "memory killed", Unit::Bytes),
    Column::new("opening after a clean close", "open closed", Unit::Time),
    Column::new("memory then", "memory closed", Unit::Bytes),
];

pub fn sizes(limits: Limits) -> Vec<usize> {
    let mut sizes = vec![100_000.min(limits.keys), 1_000_000.min(limits.keys)];
    sizes.dedup();
    sizes
}

/// The first process fills the store and is killed; the second opens it and closes it cleanly;
/// the third opens it again.
pub fn reopen(part: &Part) -> Result<Figures> {
    let filled = part.run_and_kill()?;
    let killed = part.then(What::Open).run()?;
    let closed = part.then(What::Open).run()?;
    Ok(filled
        .take(
            &killed,
            &[("open", "open killed"), ("memory", "memory killed")],
        )
        .take(
            &closed,
            &[("open", "open closed"), ("memory", "memory closed")],
        ))
}

/// Fills the store, sends the figures, and waits to be killed; ends by itself if the parent is
/// gone.
pub async fn fill_and_hold(part: &Part) -> Result<()> {
    let subject = part.engine.start(&part.folder).await?;
    filled(&subject, part.size).await?.send()?;
    std::io::stdin().read_to_end(&mut vec![])?;
    Ok(())
}

pub async fn open(part: &Part) -> Result<Figures> {
    let begun = Instant::now();
    let subject = part.engine.start(&part.folder).await?;
    answers(&*subject.store).await?;
    let took = begun.elapsed();
    let memory = subject.memory()?;
    subject.close().await;
    Ok(Figures::default()
        .with("open", took.as_secs_f64())
        .with("memory", memory as f64))
}

/// A server is a separate process, so the measuring process can restart it.
pub async fn restart(part: &Part) -> Result<Figures> {
    let mut subject = part.engine.start(&part.folder).await?;
    let filled = filled(&subject, part.size).await?;
    let took = subject.restart().await?;
    Ok(filled
        .with("open killed", took.as_secs_f64())
        .with("memory killed", subject.memory()? as f64))
}

async fn filled(subject: &Subject, count: usize) -> Result<Figures> {
    keys::fill(&subject.store, count).await?;
    Ok(Figures::default()
        .with("memory", subject.memory()? as f64)
        .with("disk", subject.disk_usage()? as f64))
}
