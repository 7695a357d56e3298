//! A writer is killed repeatedly, and no acknowledged write is lost.
//!
//! | variable | meaning |
//! |---|---|
//! | `INSULA_CRASH_ROUNDS` | number of rounds, 25 by default |
//! | `INSULA_CRASH_SEED` | seed of the first round; each further round adds one |

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::ensure;
use insula_e2e::checker::Checker;
use insula_e2e::inspection::{TINY_OPTIONS, inspect};
use insula_e2e::run::Run;
use insula_e2e::writer::Writer;
use insula_store::embedded::Embedded;
use insula_store::laws::model::Rng;
use insula_store::{Error, Revision};
use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);
const ROUNDS: u64 = 25;
const SEED: u64 = 20_260;

/// A child process inherits the lock of a store that another test has open, until it executes its
/// own program.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn repeatedly_killed_store_loses_no_acknowledged_write() {
    let rounds = variable("INSULA_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed = variable("INSULA_CRASH_SEED").unwrap_or(SEED);
    let mut test = CrashTest::new(seed).await;
    let began = Instant::now();
    let mut kills = 0;
    for round in 0..rounds {
        (test.round, test.seed) = (round, seed + round);
        kills += test.round().await.unwrap();
    }
    let totals = test.checker.totals();
    let took = began.elapsed();
    print(&format!(
        "{rounds} rounds, {kills} kills in {took:.0?}: {totals:?}"
    ));
    assert!(totals.acknowledged as u64 > 10 * rounds, "{totals:?}");
    assert!(totals.events > totals.acknowledged, "{totals:?}");
    assert!(test.checker.floor() > Revision::new(1), "{totals:?}");
}

#[tokio::test]
async fn second_process_on_the_same_directory_is_refused() {
    let mut test = CrashTest::new(SEED).await;
    let mut writer = test.start(SEED, &[]).unwrap();
    writer.await_line("compacted", TIMEOUT).unwrap();
    for _ in 0..3 {
        let second = Embedded::open(test.store(), TINY_OPTIONS).await;
        assert_eq!(second.err(), Some(Error::Locked(test.store())));
        writer.await_line("response", TIMEOUT).unwrap();
    }
    test.check_killed(writer).await.unwrap();
    assert!(test.store().join("lock").exists(), "it was left behind");
}

#[tokio::test]
async fn stopped_process_continues() {
    let mut test = CrashTest::new(SEED).await;
    let mut writer = test.start(SEED, &[]).unwrap();
    writer.await_line("compacted", TIMEOUT).unwrap();
    writer.signal(Signal::SIGSTOP).unwrap();
    // The first half receives what was printed before the stop.
    let half = Duration::from_millis(500);
    writer.listen(half).unwrap();
    let second = Embedded::open(test.store(), TINY_OPTIONS).await;
    assert_eq!(second.err(), Some(Error::Locked(test.store())));
    assert_eq!(writer.listen(half).unwrap(), 0, "it is stopped");
    writer.signal(Signal::SIGCONT).unwrap();
    for kind in ["compacted", "event", "response"] {
        writer.await_line(kind, TIMEOUT).unwrap();
    }
    test.check_killed(writer).await.unwrap();
}

/// One store directory and everything known about it.
struct CrashTest {
    seed: u64,
    round: u64,
    folder: TempDir,
    checker: Checker,
    _turn: MutexGuard<'static, ()>,
}

/// When a writer is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kill {
    /// While it opens the store, or shortly after.
    Early,
    /// While it writes.
    Writing,
}

impl CrashTest {
    async fn new(seed: u64) -> Self {
        let _turn = ONE_AT_A_TIME.lock().await;
        Self {
            seed,
            round: 0,
            folder: tempfile::tempdir().expect("a folder for the test"),
            checker: Checker::default(),
            _turn,
        }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Kills writers, then inspects the store; returns the number of writers killed.
    async fn round(&mut self) -> anyhow::Result<usize> {
        let mut dice = Rng::new(self.seed);
        let plan: &[Kill] = match dice.below(8) {
            0 => &[Kill::Early, Kill::Writing],
            1 => &[Kill::Writing, Kill::Early],
            2 => &[Kill::Writing, Kill::Writing],
            3 => &[Kill::Writing, Kill::Early, Kill::Early, Kill::Writing],
            _ => &[Kill::Writing],
        };
        let mut runs = Vec::new();
        for (index, kill) in plan.iter().enumerate() {
            let writer = self.start(dice.next_u64(), &runs)?;
            let lines = let_run(writer, *kill, &mut dice)?;
            let report = self.folder.path().join(format!("said-{index}"));
            std::fs::write(report, lines.join("\n"))?;
            runs.push(Run::read(&lines)?);
        }
        self.check(&runs, &mut dice).await?;
        Ok(plan.len())
    }

    /// Starts a writer after those that were killed since the last inspection.
    fn start(&self, seed: u64, runs: &[Run]) -> anyhow::Result<Writer> {
        let floors = runs.iter().map(|run| run.compacting);
        let floor = floors.max().unwrap_or_default().max(self.checker.floor());
        let events = runs.iter().filter_map(Run::watched_up_to);
        let events = events
            .max()
            .unwrap_or_default()
            .max(self.checker.revision());
        let back = Rng::new(seed).below(events.get() - floor.get() + 1);
        let after = Revision::new(events.get() - back);
        Writer::start(
            env!("CARGO_BIN_EXE_crash-writer"),
            &self.store(),
            seed,
            after,
        )
    }

    async fn check_killed(&mut self, writer: Writer) -> anyhow::Result<()> {
        let run = Run::read(&writer.kill()?)?;
        ensure!(run.acknowledged().count() > 0, "it has written");
        self.check(&[run], &mut Rng::new(self.seed)).await
    }

    async fn check(&mut self, runs: &[Run], dice: &mut Rng) -> anyhow::Result<()> {
        let found = inspect(&self.store(), dice).await?;
        self.checker.check(runs, &found)
    }
}

impl Drop for CrashTest {
    /// Keeps the directory of a failed test for investigation.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.folder.disable_cleanup(true);
        let Self { seed, round, .. } = self;
        let path: &Path = self.folder.path();
        print(&format!(
            "seed {seed}, round {round}: see {}",
            path.display()
        ));
    }
}

/// Lets the writer run for a random time and kills it. Half of the kills then wait for the moment
/// right after an acknowledgement, where a premature one would be lost.
fn let_run(mut writer: Writer, kill: Kill, dice: &mut Rng) -> anyhow::Result<Vec<String>> {
    if kill == Kill::Early {
        writer.listen(Duration::from_millis(dice.below(20)))?;
        return writer.kill();
    }
    writer.await_line("opened", TIMEOUT)?;
    writer.listen(Duration::from_millis(20 + dice.below(231)))?;
    match dice.below(6) {
        0 => writer.await_line("response", TIMEOUT)?,
        1 => writer.await_line("event", TIMEOUT)?,
        2 => writer.await_line("compacted", TIMEOUT)?,
        _ => {}
    }
    writer.kill()
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Prints to the terminal even if the test passes.
fn print(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}
