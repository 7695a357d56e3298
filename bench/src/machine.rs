//! What the machine says of a process, and what its disk costs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The CPU time that a process and its threads have used, those that are gone included:
/// in ticks of 10 ms, which is little beside the seconds that are measured.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |field: usize| -> Result<u64> {
        let text = fields.get(field).context("a short stat line")?;
        Ok(text.parse()?)
    };
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}

/// The memory of a process that is its own: resident, without what is mapped from files.
pub fn memory(pid: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{pid}/status"), "RssAnon:")
}

/// All memory of a process that is resident.
pub fn resident(pid: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// The most memory of a process that ever was resident.
pub fn most_resident(pid: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// As `resident`, with its share of what is shared with others.
pub fn proportional(pid: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// A line of a file, in bytes.
fn kilobytes(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| format!("no {name}"))?;
    let number = line.trim().trim_end_matches(" kB").trim();
    Ok(number.parse::<u64>()? * 1024)
}

/// What a write of 1 KiB to a file whose blocks are there, and a sync, take: the floor
/// under every durable write on this disk. A thousand times, or as often as there is time.
pub fn raw_sync(folder: &Path, time: Duration) -> Result<Vec<Duration>> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&vec![0; 4 << 20])?;
    file.sync_all()?;
    let mut times = Vec::new();
    let until = Instant::now() + time;
    for n in 0..1000_u64 {
        if Instant::now() > until && !times.is_empty() {
            break;
        }
        let begun = Instant::now();
        file.write_all_at(&[n as u8; 1100], n * 1104)?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// The bytes of all files under a folder. Those that go meanwhile do not count.
pub fn disk_usage(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += if metadata.is_dir() {
            disk_usage(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(bytes)
}
