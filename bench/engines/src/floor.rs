//! The floor: what the disk itself takes for one durable kilobyte.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::load::Random;
use crate::measure::Latencies;

const DURATION: Duration = Duration::from_secs(2);
const FILE_BYTES: usize = 16 << 20;

/// Overwrites kilobyte after kilobyte of a zero-filled file, with a sync after each.
pub fn overwrite(dir: &Path) -> Result<Latencies> {
    let path = dir.join("floor");
    let mut file = File::create(&path)?;
    file.write_all(&vec![0; FILE_BYTES])?;
    file.sync_all()?;
    let value = Random::new(0).value();
    let mut latencies = Latencies::default();
    let end = Instant::now() + DURATION;
    let mut offset = 0;
    while Instant::now() < end {
        let start = Instant::now();
        file.write_all_at(&value, offset as u64)?;
        file.sync_data()?;
        latencies.add(start.elapsed());
        offset = (offset + value.len()) % FILE_BYTES;
    }
    std::fs::remove_file(path)?;
    Ok(latencies)
}

/// Appends kilobyte after kilobyte to an empty file, with a sync after each.
pub fn append(dir: &Path) -> Result<Latencies> {
    let path = dir.join("floor");
    let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
    let value = Random::new(0).value();
    let mut latencies = Latencies::default();
    let end = Instant::now() + DURATION;
    while Instant::now() < end {
        let start = Instant::now();
        file.write_all(&value)?;
        file.sync_data()?;
        latencies.add(start.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok(latencies)
}
