//! Power cuts: the real engine on a simulated disk, cut at thousands of points.
//!
//! `INSULA_POWER_CUTS` sets the number; a few hundred by default.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "power_cut/check.rs"]
mod check;
#[path = "power_cut/run.rs"]
mod run;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use check::{Acknowledged, check};
use insula_testkit::disk::{Disk, Loss, Rng, Trace};
use run::Run;

const STORE: &str = "store";

/// Images are laid out in memory where possible: their own durability is irrelevant.
fn scratch() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    tempfile::tempdir_in(folder).unwrap()
}

fn cuts_wanted(default: usize) -> usize {
    let wanted = std::env::var("INSULA_POWER_CUTS").ok();
    wanted.map_or(default, |wanted| wanted.parse().unwrap())
}

/// Cuts the power at `count` points, spread over the trace; returns the first violation.
async fn cut(trace: &Trace, run: &Run, count: usize, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut cuts = trace.cuts();
    for n in 0..count {
        let at = trace.len() * (n + 1) / count;
        cuts.advance_to(at);
        let loss = Loss::pick(&mut rng);
        let folder = scratch();
        cuts.image(loss, &mut rng).write_to(folder.path()).unwrap();
        let acknowledged = Acknowledged::of(cuts.acknowledged());
        check(&folder.path().join(STORE), run, acknowledged)
            .await
            .map_err(|broken| format!("cut {n} at {at}, {loss:?}, seed {seed}: {broken}"))?;
    }
    Ok(())
}

#[expect(
    clippy::print_stdout,
    reason = "the report is what the long form is run for"
)]
fn report(text: &str) {
    println!("{text}");
}

async fn record(disk: Disk, writes: usize) -> (Trace, Run) {
    let folder = disk.path().join(STORE);
    // Tables fall behind the log, so that several wait to be written at a time.
    disk.slow_sync(|path| is_in(path, "tables"), Duration::from_millis(3));
    let disk = Arc::new(disk);
    let run = run::run_workload(&disk, &folder, writes).await;
    (disk.trace(), run)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost() {
    let Some(disk) = Disk::mount() else { return };
    let (trace, run) = record(disk, 1_200).await;
    let count = cuts_wanted(400);
    cut(&trace, &run, count, 1).await.unwrap();
    report(&format!(
        "{count} power cuts over {} operations and {} writes: nothing lost",
        trace.len(),
        run.log.len()
    ));
}

/// Tables are written far behind the log, while history is compacted up to the present: changes
/// that only the log has must stay in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_tables_wait_to_be_written() {
    let Some(disk) = Disk::mount() else { return };
    disk.slow_sync(|path| is_in(path, "tables"), Duration::from_millis(30));
    let folder = disk.path().join(STORE);
    let disk = Arc::new(disk);
    let run = run::compact_after_each_write(&disk, &folder, 1_500).await;
    let trace = disk.trace();
    cut(&trace, &run, cuts_wanted(200), 2).await.unwrap();
}

/// The same check, on a disk that ignores one kind of sync, as if the code had forgotten it. Each
/// must be detected, or the check is worthless.
async fn assert_detected(forgotten: impl Fn(&Path) -> bool + Send + 'static) {
    let Some(disk) = Disk::mount() else { return };
    disk.ignore_sync(forgotten);
    let (trace, run) = record(disk, 1_200).await;
    for seed in 1..4 {
        if cut(&trace, &run, 400, seed).await.is_err() {
            return;
        }
    }
    panic!("the sync is missing and nothing was lost");
}

fn is_in(path: &Path, folder: &str) -> bool {
    path.starts_with(Path::new(STORE).join(folder))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_frame_sync_is_detected() {
    assert_detected(|path| is_in(path, "log") && path.extension().is_some_and(|end| end == "log"))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_segment_sync_is_detected() {
    assert_detected(|path| path.extension().is_some_and(|end| end == "making")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_segment_name_sync_is_detected() {
    assert_detected(|path| path == Path::new(STORE).join("log")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_table_syncs_are_detected() {
    assert_detected(|path| is_in(path, "tables")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_folder_sync_is_detected() {
    assert_detected(|path| path == Path::new(STORE)).await;
}
