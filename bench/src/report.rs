//! Figures and tables.

use std::time::Duration;

/// Some of many times.
#[derive(Clone, Copy, Debug)]
pub struct Quantiles {
    pub p50: Duration,
    pub p99: Duration,
    pub max: Duration,
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

/// A Markdown table, printed row by row.
#[expect(clippy::print_stdout, reason = "the figures are this program's output")]
pub fn table(title: &str, columns: &[&str], rows: &[Vec<String>]) {
    println!("\n### {title}\n");
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// What is going on, for the one who waits.
#[expect(clippy::print_stderr, reason = "this is a program for a terminal")]
pub fn progress(text: &str) {
    eprintln!("bench: {text}");
}

pub fn micros(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        _ if micros >= 10_000.0 => format!("{:.1} ms", micros / 1e3),
        _ if micros >= 100.0 => format!("{micros:.0} us"),
        _ => format!("{micros:.1} us"),
    }
}

pub fn per(time: Duration, count: usize) -> String {
    micros(time.div_f64(count.max(1) as f64))
}

pub fn rate(count: usize, time: Duration) -> String {
    format!("{:.0}", count as f64 / time.as_secs_f64())
}

pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
