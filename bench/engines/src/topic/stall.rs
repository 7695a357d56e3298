//! The longest wait of a writer in a long run.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::engine::{Engine, Fjall, Lsm, Redb};
use crate::load::{Load, nothing_known, run, write_all};
use crate::measure::settle;
use crate::table;

const KEYS: usize = 100_000;
const LOAD: Load = Load {
    writers: 64,
    readers: 0,
    duration: Duration::from_secs(20),
};

pub fn report(dir: &Path) -> Result<()> {
    let rows = [
        row::<Fjall>(dir)?,
        row::<Redb<false>>(dir)?,
        row::<Redb<true>>(dir)?,
        row::<Lsm>(dir)?,
    ];
    let header = [
        "engine",
        "writes",
        "writes/s",
        "CPU us/write",
        "p99 ms",
        "p99.9 ms",
        "p99.99 ms",
        "max ms",
    ];
    table::print("Stalls over 20 s at 64 writers", &header, &rows);
    Ok(())
}

fn row<E: Engine>(dir: &Path) -> Result<Vec<String>> {
    eprintln!("stall: {}", E::NAME);
    let dir = dir.join("store");
    let known = nothing_known(KEYS);
    let mut engine = E::open(&dir)?;
    write_all(&mut engine, &known, 0..KEYS)?;
    settle()?;
    let mut run = run(&mut engine, &known, &LOAD)?;
    drop(engine);
    std::fs::remove_dir_all(dir)?;
    let count = run.writes.count() as f64;
    let mut row = vec![
        E::NAME.to_owned(),
        table::whole(count),
        table::whole(count / run.elapsed.as_secs_f64()),
        format!("{:.1}", run.cpu.as_secs_f64() * 1e6 / count),
    ];
    for share in [0.99, 0.999, 0.9999, 1.0] {
        row.push(format!("{:.1}", run.writes.micros(share) / 1e3));
    }
    Ok(row)
}
