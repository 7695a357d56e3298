//! Benchmarks of the store's engines through its contract.

mod compaction;
mod heading;
mod keys;
mod ranges;
mod size;
mod targets;
mod topic;
mod watches;
mod writes;

use anyhow::Result;
use insula_testkit::etcd::EtcdServer;

use self::topic::Topic;
use crate::figures::Figures;
use crate::part::{Limits, Part, What, name};
use crate::report::{self, Row, progress};
use crate::subject::Engine;
use crate::system::data_folder;

/// Options of the store benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Only these engines.
    #[arg(long, value_enum)]
    engine: Vec<Engine>,
    /// Only these topics.
    #[arg(long, value_enum)]
    topic: Vec<Topic>,
    #[command(flatten)]
    limits: Limits,
    /// Run a smoke test: half a second for each measurement, and few keys.
    #[arg(long)]
    quick: bool,
    /// Date to print with the figures.
    #[arg(long)]
    date: Option<String>,
}

/// The rows of every measured topic.
type Results = Vec<(Topic, Vec<Row>)>;

impl Args {
    /// More keys than a range has, but few enough for a test.
    const QUICK: Limits = Limits {
        millis: 500,
        keys: 6_000,
    };

    fn limits(&self) -> Limits {
        if self.quick { Self::QUICK } else { self.limits }
    }

    fn topics(&self) -> Vec<Topic> {
        let wanted = |topic: &Topic| self.topic.is_empty() || self.topic.contains(topic);
        Topic::ALL.into_iter().filter(wanted).collect()
    }

    /// Returns the selected engines that are installed.
    fn engines(&self, etcd: Option<&str>) -> Vec<Engine> {
        let wanted = |engine: &Engine| self.engine.is_empty() || self.engine.contains(engine);
        let there = |engine: &Engine| *engine != Engine::Etcd || etcd.is_some();
        let all = [Engine::Embedded, Engine::Etcd].into_iter();
        all.filter(wanted).filter(there).collect()
    }

    fn etcd(&self) -> Option<String> {
        if !self.engine.is_empty() && !self.engine.contains(&Engine::Etcd) {
            return None;
        }
        let version = EtcdServer::version();
        if version.is_none() {
            progress("etcd is not installed: its rows are left out");
        }
        version
    }
}

/// Measures all selected topics, and prints the report.
pub fn run(args: &Args) -> Result<()> {
    let (limits, etcd) = (args.limits(), args.etcd());
    heading::print(args.date.as_deref(), etcd.as_deref(), limits)?;
    let mut results = Results::new();
    for topic in args.topics() {
        let mut rows = vec![];
        for engine in args.engines(etcd.as_deref()) {
            for size in topic.sizes(limits) {
                rows.push(row(topic, engine, size, limits)?);
            }
        }
        let title = topic.title(limits);
        report::figures(&title, "engine", topic.columns(), &rows);
        results.push((topic, rows));
    }
    targets::print(&results);
    Ok(())
}

fn row(topic: Topic, engine: Engine, size: usize, limits: Limits) -> Result<Row> {
    progress(&format!("{}: {} {size}", name(engine), name(topic)));
    let folder = tempfile::tempdir_in(data_folder()?)?;
    let part = Part {
        what: topic.part(engine),
        engine,
        size,
        limits,
        folder: folder.path().to_owned(),
    };
    let figures = match part.what {
        What::Fill => size::reopen(&part)?,
        _ => part.run()?,
    };
    Ok(Row {
        of: name(engine),
        figures: figures.with("size", size as f64),
    })
}

/// Runs one measurement in this process.
pub async fn measure(part: &Part) -> Result<()> {
    let figures: Figures = match part.what {
        What::Writes => writes::measure(part).await?,
        What::Ranges => ranges::measure(part).await?,
        What::Watches => watches::measure(part).await?,
        What::Compaction => compaction::measure(part).await?,
        What::Fill => return size::fill_and_hold(part).await,
        What::Open => size::open(part).await?,
        What::Restart => size::restart(part).await?,
    };
    figures.send()?;
    Ok(())
}
