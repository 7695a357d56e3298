//! What was measured, on its way from the process that measured to the one that reports.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::subject::Cpu;

/// The line after the last figure.
const END: &str = "end";

/// Named figures: seconds, bytes, or plain numbers.
#[derive(Clone, Debug, Default)]
pub struct Figures(BTreeMap<String, f64>);

/// Some of many times.
#[derive(Clone, Copy, Debug)]
pub struct Quantiles {
    pub p50: Duration,
    pub p99: Duration,
    pub max: Duration,
}

impl Figures {
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    #[must_use]
    pub fn maybe(self, name: &str, value: Option<f64>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Those of `names` that `other` has, under new names.
    #[must_use]
    pub fn take(self, other: &Self, names: &[(&str, &str)]) -> Self {
        let take = |own: Self, (old, new): &(&str, &str)| own.maybe(new, other.get(old));
        names.iter().fold(self, take)
    }

    /// `what p50`, `what p99` and `what max`.
    #[must_use]
    pub fn times(self, what: &str, times: Quantiles) -> Self {
        self.with(&format!("{what} p50"), times.p50.as_secs_f64())
            .with(&format!("{what} p99"), times.p99.as_secs_f64())
            .with(&format!("{what} max"), times.max.as_secs_f64())
    }

    /// `what cpu` and `what caller`, for each of `count`.
    #[must_use]
    pub fn cpu(self, what: &str, cpu: Cpu, count: usize) -> Self {
        let each = |time: Duration| time.as_secs_f64() / count.max(1) as f64;
        self.with(&format!("{what} cpu"), each(cpu.engine))
            .maybe(&format!("{what} caller"), cpu.caller.map(each))
    }

    /// Hands them to the process that reports.
    pub fn send(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (name, value) in &self.0 {
            writeln!(out, "{value} {name}")?;
        }
        writeln!(out, "{END}")?;
        out.flush()
    }

    /// Takes them from the process that measures.
    pub fn receive(from: impl BufRead) -> Result<Self> {
        let mut figures = Self::default();
        for line in from.lines() {
            let line = line?;
            if line == END {
                return Ok(figures);
            }
            let (value, name) = line.split_once(' ').context("not a figure")?;
            figures.0.insert(name.to_owned(), value.parse()?);
        }
        anyhow::bail!("the measurement broke off")
    }
}

impl Quantiles {
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: usize| {
            let index = (times.len() * share / 100).min(times.len().saturating_sub(1));
            times.get(index).copied().unwrap_or_default()
        };
        Self {
            p50: at(50),
            p99: at(99),
            max: times.last().copied().unwrap_or_default(),
        }
    }
}
