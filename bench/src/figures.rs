//! Measured figures, and their transfer from the measuring process to the reporting one.

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

/// Quantiles of many durations.
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

    /// Adds all figures of `other`.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Adds a prefix to all names.
    #[must_use]
    pub fn under(self, prefix: &str) -> Self {
        let rename = |(name, value)| (format!("{prefix} {name}"), value);
        Self(self.0.into_iter().map(rename).collect())
    }

    /// Adds the figures of `other` that `names` lists, under new names.
    #[must_use]
    pub fn take(self, other: &Self, names: &[(&str, &str)]) -> Self {
        let take = |own: Self, (old, new): &(&str, &str)| own.maybe(new, other.get(old));
        names.iter().fold(self, take)
    }

    /// Adds `what p50`, `what p99` and `what max`.
    #[must_use]
    pub fn times(self, what: &str, times: Quantiles) -> Self {
        self.with(&format!("{what} p50"), times.p50.as_secs_f64())
            .with(&format!("{what} p99"), times.p99.as_secs_f64())
            .with(&format!("{what} max"), times.max.as_secs_f64())
    }

    /// Adds `what cpu` and `what caller`, per operation.
    #[must_use]
    pub fn cpu(self, what: &str, cpu: Cpu, count: usize) -> Self {
        let each = |time: Duration| time.as_secs_f64() / count.max(1) as f64;
        self.with(&format!("{what} cpu"), each(cpu.engine))
            .maybe(&format!("{what} caller"), cpu.caller.map(each))
    }

    /// Sends the figures to the reporting process.
    pub fn send(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (name, value) in &self.0 {
            writeln!(out, "{value} {name}")?;
        }
        writeln!(out, "{END}")?;
        out.flush()
    }

    /// Receives the figures from the measuring process.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(numbers: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        numbers.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn quantiles_do_not_depend_on_the_order() {
        for times in [millis(1..=200), millis((1..=200).rev())] {
            let found = Quantiles::of(times);
            let found = [found.p50, found.p99, found.max].map(|time| time.as_millis());
            assert_eq!(found, [101, 199, 200]);
        }
    }

    #[test]
    fn quantiles_of_few_times_are_among_them() {
        let one = Quantiles::of(millis([7]));
        assert_eq!([one.p50, one.p99, one.max], [Duration::from_millis(7); 3]);
        assert_eq!(Quantiles::of(vec![]).max, Duration::ZERO);
    }

    #[test]
    fn sent_figures_are_received() {
        let text = "0.25 get cpu\n1000 rate of writes\nend\n";
        let figures = Figures::receive(text.as_bytes()).unwrap();
        assert_eq!(figures.get("get cpu"), Some(0.25));
        assert_eq!(figures.get("rate of writes"), Some(1000.0));
        let cut = Figures::receive(&b"0.25 get cpu\n"[..]).unwrap_err();
        assert!(cut.to_string().contains("broke off"));
    }
}
