//! Measures established embedded engines on the workload of the store.
//!
//! `cargo run --release [writes|reopen|stall|torn]...` prints Markdown tables; without arguments
//! it answers every question. It is no test of correctness beyond what keeps the figures honest,
//! and not a tuned setup: engines run with their defaults, a cache of the same size and no
//! compression, since the values are random.

mod engine;
mod floor;
mod load;
mod measure;
mod table;
mod topic;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

const TOPICS: [&str; 4] = ["torn", "writes", "stall", "reopen"];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, engine, dir] = arguments.as_slice()
        && command == "load-and-die"
    {
        return topic::reopen::load_and_die(engine, Path::new(dir));
    }
    // Below `target/`: on a real disk, and never committed.
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("target")
        .join(format!("data-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let reported = report(&arguments, &dir);
    std::fs::remove_dir_all(&dir)?;
    reported
}

fn report(topics: &[String], dir: &Path) -> Result<()> {
    let all = TOPICS.map(str::to_owned);
    let topics = if topics.is_empty() { &all } else { topics };
    for topic in topics {
        match topic.as_str() {
            "writes" => topic::writes::report(dir)?,
            "stall" => topic::stall::report(dir)?,
            "reopen" => topic::reopen::report(dir)?,
            "torn" => topic::torn::report(dir)?,
            other => bail!(
                "no topic is called {other}; there are {}",
                TOPICS.join(", ")
            ),
        }
    }
    Ok(())
}
