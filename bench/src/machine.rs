//! Resource usage of processes, and the cost of the disk.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Returns the CPU time of a process, finished threads included, in ticks of 10 ms: precise
/// enough for measurements of seconds.
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

/// Returns the anonymous resident memory of a process.
pub fn memory(pid: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{pid}/status"), "RssAnon:")
}

/// Returns the resident memory of a process.
pub fn resident(pid: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Returns the peak resident memory of a process.
pub fn most_resident(pid: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// Resets the peak resident memory of a process to its current value.
pub fn reset_most_resident(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("cannot reset the peak of memory")
}

/// Returns the resident memory of a process, with shared pages counted proportionally.
pub fn proportional(pid: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Returns the value of a line in kB, in bytes.
fn kilobytes(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| format!("no {name}"))?;
    let number = line.trim().trim_end_matches(" kB").trim();
    Ok(number.parse::<u64>()? * 1024)
}

/// Measures writes of 1 KiB to preallocated blocks, each with a sync: the lower bound of every
/// durable write on this disk. Repeats a thousand times, or until the time is over.
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

/// Returns the size of all files under a folder. Files that vanish meanwhile are ignored.
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
