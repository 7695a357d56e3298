//! The store's engines, through the contract.

mod compaction;
mod keys;
mod ranges;
mod size;
mod watches;
mod writes;

use anyhow::Result;

use crate::machine;
use crate::report::{self, Quantiles, micros};
use crate::subject::{Engine, data_folder};

/// What to measure.
#[derive(clap::Args)]
pub struct Args {
    /// Only these engines.
    #[arg(long, value_enum)]
    engine: Vec<Engine>,
    /// Only these topics.
    #[arg(long, value_enum)]
    topic: Vec<Topic>,
    /// Seconds for each measurement of writes.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// The most keys to fill a store with.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Topic {
    Writes,
    Ranges,
    Watches,
    Compaction,
    Size,
}

pub async fn run(args: Args) -> Result<()> {
    let engines = if args.engine.is_empty() {
        vec![Engine::Embedded]
    } else {
        args.engine.clone()
    };
    let wanted = |topic| args.topic.is_empty() || args.topic.contains(&topic);
    let raw = Quantiles::of(machine::raw_sync(&data_folder()?)?);
    report::table(
        "The disk: 1 KiB over blocks that are there, and a sync",
        &["p50", "p99", "max"],
        &[vec![micros(raw.p50), micros(raw.p99), micros(raw.max)]],
    );
    if wanted(Topic::Writes) {
        writes::measure(&engines, args.seconds).await?;
    }
    if wanted(Topic::Ranges) {
        ranges::measure(&engines).await?;
    }
    if wanted(Topic::Watches) {
        watches::measure(&engines).await?;
    }
    if wanted(Topic::Compaction) {
        compaction::measure(&engines, args.seconds).await?;
    }
    if wanted(Topic::Size) {
        size::measure(&engines, args.keys).await?;
    }
    Ok(())
}
