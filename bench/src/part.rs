//! One measurement in a process of its own.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::figures::Figures;
use crate::subject::Engine;

/// The parameters of a measurement.
#[derive(Clone, Debug, clap::Args)]
pub struct Part {
    #[arg(value_enum)]
    pub what: What,
    #[arg(value_enum)]
    pub engine: Engine,
    /// Writers, watchers, compactions a second or keys: the parameter that varies by row.
    pub size: usize,
    #[command(flatten)]
    pub limits: Limits,
    /// The data folder.
    #[arg(long)]
    pub folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    Writes,
    Ranges,
    Watches,
    Compaction,
    /// Fill a store, and keep it open until killed.
    Fill,
    /// Open an existing store.
    Open,
    /// Fill, kill and start again a server.
    Restart,
}

/// Limits of the measurements.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Limits {
    /// Milliseconds for each measurement of writes.
    #[arg(long, default_value_t = 5_000)]
    pub millis: u64,
    /// Maximum number of keys in a store.
    #[arg(long, default_value_t = 1_000_000)]
    pub keys: usize,
}

impl Limits {
    /// Returns the duration of each measurement of writes.
    pub fn time(self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

impl Part {
    /// Measures in a new process, which then ends by itself.
    pub fn run(&self) -> Result<Figures> {
        let (mut child, figures) = self.start()?;
        let status = child.wait()?;
        ensure!(status.success(), "a measurement ended with {status}");
        figures.context("a measurement sent no figures")
    }

    /// Measures in a new process, which is then killed.
    pub fn run_and_kill(&self) -> Result<Figures> {
        let (mut child, figures) = self.start()?;
        child.kill()?;
        child.wait()?;
        figures.context("a measurement sent no figures")
    }

    /// Starts a process, and returns once it has sent its figures or stopped early.
    fn start(&self) -> Result<(Child, Result<Figures>)> {
        let mut child = self
            .command()?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a measurement")?;
        let out = child.stdout.take().context("a child without stdout")?;
        let figures = Figures::receive(BufReader::new(out));
        Ok((child, figures))
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["part", &name(self.what), &name(self.engine)])
            .arg(self.size.to_string())
            .args(["--millis", &self.limits.millis.to_string()])
            .args(["--keys", &self.limits.keys.to_string()])
            .arg("--folder")
            .arg(&self.folder);
        Ok(command)
    }

    /// Returns another measurement on the same data.
    pub fn then(&self, what: What) -> Self {
        Self {
            what,
            ..self.clone()
        }
    }
}

/// Returns the name of a value on the command line.
pub fn name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}
