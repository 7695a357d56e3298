//! Opening a million keys after a crash and after a clean close; disk space and its return.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::engine::{Engine, Fjall, Lsm, Reader, Redb};
use crate::load::{key, nothing_known, write_all};
use crate::measure::{copy_dir, disk_bytes, forget_cached, settle};
use crate::table;

const KEYS: usize = 1_000_000;
const OVERWRITTEN: usize = 200_000;
/// Keys read back after each opening.
const SAMPLES: usize = 1000;

/// What opening and filling one engine showed.
struct Findings {
    opening: Vec<String>,
    space: Vec<String>,
}

pub fn report(dir: &Path) -> Result<()> {
    let findings = [
        measure::<Fjall>(dir)?,
        measure::<Redb<false>>(dir)?,
        measure::<Redb<true>>(dir)?,
        measure::<Lsm>(dir)?,
    ];
    let header = [
        "engine",
        "load s",
        "after SIGKILL, files cached",
        "after SIGKILL, cache dropped",
        "after clean close, cached",
        "after clean close, dropped",
    ];
    let (opening, space): (Vec<_>, Vec<_>) = findings
        .into_iter()
        .map(|findings| (findings.opening, findings.space))
        .unzip();
    table::print("Opening with 1,000,000 keys, seconds", &header, &opening);
    let header = [
        "engine",
        "million keys",
        "200,000 overwritten twice",
        "old history deleted, at rest",
        "after explicit compaction",
        "and reopening",
        "seconds to delete",
        "seconds to compact",
    ];
    table::print("Disk space, MiB of blocks", &header, &space);
    Ok(())
}

/// Loads a store and dies by SIGKILL; run in a child process.
pub fn load_and_die(engine: &str, dir: &Path) -> Result<()> {
    match engine {
        Fjall::NAME => load::<Fjall>(dir)?,
        Redb::<false>::NAME => load::<Redb<false>>(dir)?,
        Redb::<true>::NAME => load::<Redb<true>>(dir)?,
        Lsm::NAME => load::<Lsm>(dir)?,
        _ => bail!("no engine is called {engine}"),
    }
    Ok(())
}

fn load<E: Engine>(dir: &Path) -> Result<()> {
    let mut engine = E::open(dir)?;
    write_all(&mut engine, &nothing_known(KEYS), 0..KEYS)?;
    let this = rustix::process::getpid();
    Ok(rustix::process::kill_process(
        this,
        rustix::process::Signal::KILL,
    )?)
}

fn measure<E: Engine>(dir: &Path) -> Result<Findings> {
    eprintln!("reopen: {}", E::NAME);
    let (store, copy) = (dir.join("store"), dir.join("copy"));
    let start = Instant::now();
    let status = Command::new(std::env::current_exe()?)
        .args(["load-and-die", E::NAME])
        .arg(&store)
        .status()?;
    let loaded = start.elapsed();
    ensure!(
        std::os::unix::process::ExitStatusExt::signal(&status) == Some(9),
        "the loading process ended with {status}"
    );
    copy_dir(&store, &copy)?;
    forget_cached(&copy)?;
    let (engine, crashed_cold) = open::<E>(&copy)?;
    drop(engine);
    std::fs::remove_dir_all(copy)?;
    let (engine, crashed_warm) = open::<E>(&store)?;
    settle()?;
    drop(engine);
    let (engine, clean_warm) = open::<E>(&store)?;
    drop(engine);
    forget_cached(&store)?;
    let (engine, clean_cold) = open::<E>(&store)?;
    let mut opening = vec![E::NAME.to_owned(), format!("{:.0}", loaded.as_secs_f64())];
    for time in [crashed_warm, crashed_cold, clean_warm, clean_cold] {
        opening.push(format!("{:.3}", time.as_secs_f64()));
    }
    let space = measure_space(engine, &store)?;
    std::fs::remove_dir_all(store)?;
    Ok(Findings { opening, space })
}

/// Opens a store and checks that every acknowledged write is there.
fn open<E: Engine>(dir: &Path) -> Result<(E, Duration)> {
    let start = Instant::now();
    let engine = E::open(dir)?;
    let time = start.elapsed();
    ensure!(
        engine.revision() == KEYS as u64,
        "{} ends at revision {}",
        E::NAME,
        engine.revision()
    );
    let reader = engine.reader();
    for number in (0..KEYS).rev().step_by(KEYS / SAMPLES) {
        ensure!(reader.get(&key(number))?.is_some(), "a key is missing");
    }
    Ok((engine, time))
}

fn measure_space<E: Engine>(mut engine: E, dir: &Path) -> Result<Vec<String>> {
    let known = nothing_known(KEYS);
    for (number, revision) in known.iter().enumerate() {
        revision.store(number as u64 + 1, Ordering::Relaxed);
    }
    settle()?;
    let loaded = disk_bytes(dir)?;
    for _ in 0..2 {
        write_all(&mut engine, &known, 0..OVERWRITTEN)?;
    }
    settle()?;
    let overwritten = disk_bytes(dir)?;
    let start = Instant::now();
    engine.discard_history()?;
    let discarding = start.elapsed();
    // A few ordinary commits, in case the engine gives space back only with the next ones.
    for number in 0..10 {
        write_all(&mut engine, &known, number..number + 1)?;
    }
    settle()?;
    let discarded = disk_bytes(dir)?;
    let start = Instant::now();
    engine.compact()?;
    let compacting = start.elapsed();
    settle()?;
    let compacted = disk_bytes(dir)?;
    // Tables that a compaction replaced may live as long as the version that names them.
    drop(engine);
    let engine = E::open(dir)?;
    settle()?;
    let reopened = disk_bytes(dir)?;
    drop(engine);
    let mut row = vec![E::NAME.to_owned()];
    row.extend([loaded, overwritten, discarded, compacted, reopened].map(table::mebibytes));
    row.extend([discarding, compacting].map(|time| format!("{:.1}", time.as_secs_f64())));
    Ok(row)
}
