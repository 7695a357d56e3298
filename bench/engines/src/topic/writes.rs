//! Durable writes by number of writers, reads beside them, and the floor of the disk.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::engine::{Engine, Fjall, Lsm, Redb};
use crate::load::{Load, Run, nothing_known, run, write_all};
use crate::measure::{Latencies, median, settle};
use crate::{floor, table};

const KEYS: usize = 100_000;
const ROUNDS: usize = 3;
const WRITERS: [usize; 4] = [1, 16, 64, 256];
const DURATION: Duration = Duration::from_secs(3);

/// The runs of one engine with one load, over all rounds.
struct Series {
    engine: &'static str,
    writers: usize,
    runs: Vec<Run>,
}

impl Series {
    fn median(&mut self, figure: impl FnMut(&mut Run) -> f64) -> f64 {
        median(self.runs.iter_mut().map(figure).collect())
    }
}

pub fn report(dir: &Path) -> Result<()> {
    let (mut overwrites, mut appends) = (Vec::new(), Vec::new());
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    // Engines take turns, so that noise of the machine falls on all of them.
    for round in 0..ROUNDS {
        eprintln!("writes: round {}", round + 1);
        overwrites.push(floor::overwrite(dir)?);
        appends.push(floor::append(dir)?);
        measure::<Fjall>(dir, &mut writes, &mut reads)?;
        measure::<Redb<false>>(dir, &mut writes, &mut reads)?;
        measure::<Redb<true>>(dir, &mut writes, &mut reads)?;
        measure::<Lsm>(dir, &mut writes, &mut reads)?;
    }
    let floors = [
        floor_row("1 KiB over a zero-filled file + fdatasync", overwrites),
        floor_row("1 KiB appended + fdatasync", appends),
    ];
    let header = ["pattern", "writes/s", "p50 us", "p99 us"];
    table::print("Floor of the disk", &header, &floors);
    print_writes(&mut writes);
    print_reads(&mut reads);
    Ok(())
}

fn measure<E: Engine>(dir: &Path, writes: &mut Vec<Series>, reads: &mut Vec<Series>) -> Result<()> {
    eprintln!("  {}", E::NAME);
    let dir = dir.join("store");
    let known = nothing_known(KEYS);
    let mut engine = E::open(&dir)?;
    write_all(&mut engine, &known, 0..KEYS)?;
    settle()?;
    for writers in WRITERS {
        let load = Load {
            writers,
            readers: 0,
            duration: DURATION,
        };
        add::<E>(writes, writers, run(&mut engine, &known, &load)?);
    }
    let load = Load {
        writers: 16,
        readers: 1,
        duration: DURATION,
    };
    add::<E>(reads, load.writers, run(&mut engine, &known, &load)?);
    drop(engine);
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

fn add<E: Engine>(all: &mut Vec<Series>, writers: usize, run: Run) {
    let same = |series: &&mut Series| series.engine == E::NAME && series.writers == writers;
    match all.iter_mut().find(same) {
        Some(series) => series.runs.push(run),
        None => all.push(Series {
            engine: E::NAME,
            writers,
            runs: vec![run],
        }),
    }
}

fn floor_row(pattern: &str, rounds: Vec<Latencies>) -> Vec<String> {
    let mut rounds = rounds;
    let mut middle = |figure: fn(&mut Latencies) -> f64| {
        table::whole(median(rounds.iter_mut().map(figure).collect()))
    };
    vec![
        pattern.to_owned(),
        // Each round takes two seconds.
        middle(|latencies| latencies.count() as f64 / 2.0),
        middle(|latencies| latencies.micros(0.5)),
        middle(|latencies| latencies.micros(0.99)),
    ]
}

fn print_writes(all: &mut [Series]) {
    let mut rows = Vec::new();
    for writers in WRITERS {
        for series in all.iter_mut().filter(|series| series.writers == writers) {
            rows.push(write_row(series));
        }
    }
    let header = [
        "writers",
        "engine",
        "writes/s",
        "CPU us/write",
        "syncs/write",
        "p50 us",
        "p99 us",
        "max us",
    ];
    table::print("Durable writes, 100,000 keys", &header, &rows);
}

fn write_row(series: &mut Series) -> Vec<String> {
    let count = |run: &Run| run.writes.count() as f64;
    vec![
        series.writers.to_string(),
        series.engine.to_owned(),
        table::whole(series.median(|run| count(run) / run.elapsed.as_secs_f64())),
        format!(
            "{:.1}",
            series.median(|run| run.cpu.as_secs_f64() * 1e6 / count(run))
        ),
        format!("{:.3}", series.median(|run| run.syncs as f64 / count(run))),
        table::whole(series.median(|run| run.writes.micros(0.5))),
        table::whole(series.median(|run| run.writes.micros(0.99))),
        table::whole(series.median(|run| run.writes.micros(1.0))),
    ]
}

fn print_reads(all: &mut [Series]) {
    let rows: Vec<_> = all.iter_mut().map(read_row).collect();
    let header = [
        "engine",
        "reads/s",
        "p50 us",
        "p99 us",
        "max us",
        "writes/s beside",
    ];
    table::print("Point reads by 1 thread beside 16 writers", &header, &rows);
}

fn read_row(series: &mut Series) -> Vec<String> {
    vec![
        series.engine.to_owned(),
        table::whole(series.median(|run| run.reads.count() as f64 / run.elapsed.as_secs_f64())),
        format!("{:.1}", series.median(|run| run.reads.micros(0.5))),
        format!("{:.1}", series.median(|run| run.reads.micros(0.99))),
        table::whole(series.median(|run| run.reads.micros(1.0))),
        table::whole(series.median(|run| run.writes.count() as f64 / run.elapsed.as_secs_f64())),
    ]
}
