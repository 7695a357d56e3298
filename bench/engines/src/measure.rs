//! Clocks, sizes and medians.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Length of a tick in `/proc/self/stat`, fixed at 100 Hz for user space on Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time this process has used, in user space and in the kernel.
pub fn cpu_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("no command in stat")?;
    let mut ticks = 0;
    // utime and stime are the 14th and 15th fields; the state after the command is the third.
    for field in fields.split_whitespace().skip(11).take(2) {
        ticks += field.parse::<u32>()?;
    }
    Ok(TICK * ticks)
}

/// Waits until the background threads of an engine have nothing left to do.
pub fn settle() -> Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        let before = cpu_time()?;
        std::thread::sleep(Duration::from_millis(300));
        if cpu_time()? - before <= TICK {
            break;
        }
    }
    Ok(())
}

/// Disk blocks taken by a folder: holes do not count.
pub fn disk_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            metadata.blocks() * 512
        };
    }
    Ok(bytes)
}

pub fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.metadata()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Drops the files of a folder from the page cache, as after a restart of the machine.
pub fn forget_cached(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.metadata()?.is_dir() {
            forget_cached(&entry.path())?;
        } else {
            let file = File::open(entry.path())?;
            // Only clean pages can be dropped.
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[derive(Default)]
pub struct Latencies {
    nanos: Vec<u64>,
    sorted: bool,
}

impl Latencies {
    pub fn add(&mut self, latency: Duration) {
        // Five centuries fit.
        self.nanos.push(latency.as_nanos() as u64);
        self.sorted = false;
    }

    pub fn merge(&mut self, other: Self) {
        self.nanos.extend(other.nanos);
        self.sorted = false;
    }

    pub fn count(&self) -> usize {
        self.nanos.len()
    }

    /// The latency in microseconds that this share of the samples does not exceed.
    pub fn micros(&mut self, share: f64) -> f64 {
        if !self.sorted {
            self.nanos.sort_unstable();
            self.sorted = true;
        }
        let last = self.nanos.len().saturating_sub(1);
        let index = (last as f64 * share).round() as usize;
        self.nanos
            .get(index)
            .map_or(0.0, |&nanos| nanos as f64 / 1e3)
    }
}

/// The middle of these figures (the upper one of an even number).
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
