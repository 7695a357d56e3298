//! A complete example: a toy log on the disk, cut at every point.
#![expect(
    clippy::unwrap_used,
    reason = "a failed step fails the test, in its helpers too"
)]

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use insula_testkit::disk::{Disk, Loss, Rng, Syncs};

const RECORDS: u64 = 12;

/// A record spans sectors, so that it can be torn: its number, repeated.
const RECORD: usize = 1_200;

fn run(disk: &Disk) -> io::Result<()> {
    let mut log = File::create(disk.path().join("log"))?;
    File::open(disk.path())?.sync_all()?;
    for number in 1..=RECORDS {
        log.write_all(&[number as u8; RECORD])?;
        log.sync_data()?;
        disk.mark(number);
    }
    Ok(())
}

/// The number of complete records from the start on.
fn recover(dir: &Path) -> u64 {
    let bytes = fs::read(dir.join("log")).unwrap_or_default();
    let records = bytes.chunks_exact(RECORD).zip(1_u64..);
    let whole = records.take_while(|(record, n)| record.iter().all(|b| u64::from(*b) == *n));
    whole.count() as u64
}

/// The first cut that lost something acknowledged, as a sentence.
fn find_loss(disk: &Disk) -> Option<String> {
    let trace = disk.trace();
    let mut cuts = trace.cuts();
    for at in 0..=trace.len() {
        cuts.advance_to(at);
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let loss = Loss::pick(&mut rng);
            let dir = tempfile::tempdir().unwrap();
            cuts.image(loss, &mut rng).write_to(dir.path()).unwrap();
            let recovered = recover(dir.path());
            let acknowledged = cuts.acknowledged().last().copied().unwrap_or(0);
            if recovered < acknowledged {
                return Some(format!(
                    "cut at {at}, {loss:?}, seed {seed}: {recovered} < {acknowledged}"
                ));
            }
        }
    }
    None
}

#[test]
fn log_with_syncs_loses_nothing_acknowledged() {
    let Some(disk) = Disk::mount() else { return };
    run(&disk).unwrap();
    assert_eq!(find_loss(&disk), None);
    let syncs = Syncs {
        files: RECORDS,
        dirs: 1,
    };
    assert_eq!(disk.syncs(), syncs);
}

#[test]
fn missing_file_syncs_are_detected() {
    let Some(disk) = Disk::mount() else { return };
    disk.ignore_sync(|path| path.ends_with("log"));
    run(&disk).unwrap();
    assert!(find_loss(&disk).is_some());
}

#[test]
fn missing_directory_sync_is_detected() {
    let Some(disk) = Disk::mount() else { return };
    disk.ignore_sync(|path| path == Path::new(""));
    run(&disk).unwrap();
    assert!(find_loss(&disk).is_some());
}
