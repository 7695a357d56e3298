//! A log file that is rotated by the server, or by another program.

pub mod backups;
#[cfg(test)]
mod tests;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// When a log file is rotated, and what becomes of the old ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// The size at which the file is rotated; 0 for never.
    pub max_bytes: u64,
    /// The most old files that are kept; 0 for all.
    pub max_backups: usize,
    /// How long old files are kept; `None` for ever.
    pub max_age: Option<Duration>,
    /// Whether old files are compressed.
    pub compress: bool,
}

/// A file that lines are appended to. When it is moved or removed, a new one is created at
/// its path.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    rotation: Rotation,
    /// The size of the file.
    size: u64,
    /// When rotation is attempted again after a failure.
    rotate_after: Option<Instant>,
    /// The thread that removes and compresses old files.
    cleaning: Option<JoinHandle<()>>,
    looked: Instant,
    /// Whether the last write ended a line.
    whole: bool,
    /// Whether the last attempt to reopen the path failed.
    displaced: bool,
}

/// How often the path is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl LogFile {
    /// Opens the file, or creates it with access for its owner only.
    pub fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let file = open(path)?;
        let mut log = Self {
            path: path.to_owned(),
            size: size(&file),
            file,
            rotation,
            rotate_after: None,
            cleaning: None,
            looked: Instant::now(),
            whole: true,
            displaced: false,
        };
        log.clean();
        Ok(log)
    }

    /// Switches to a new file if this one is no longer at its path. If that fails, lines are
    /// still written to the old one, so that none is lost.
    fn follow(&mut self) {
        if self.looked.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.looked = Instant::now();
        if self.is_in_place() {
            self.displaced = false;
            return;
        }
        match open(&self.path) {
            Ok(file) => {
                self.size = size(&file);
                self.file = file;
                self.displaced = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.displaced, true) {
                    tracing::error!(%error, "rotated audit log not reopened");
                }
            }
        }
    }

    /// Rotates the file if the next line would make it too large. If that fails, lines are still
    /// written to it, so that none is lost.
    fn rotate_if_full(&mut self, line: usize) {
        let max = self.rotation.max_bytes;
        if max == 0 || self.size == 0 || self.size + line as u64 <= max {
            return;
        }
        if self
            .rotate_after
            .is_some_and(|after| Instant::now() < after)
        {
            return;
        }
        match self.rotate() {
            Ok(()) => {
                self.rotate_after = None;
                self.clean();
            }
            Err(error) => {
                if self.rotate_after.is_none() {
                    tracing::error!(%error, "audit log not rotated");
                }
                self.rotate_after = Some(Instant::now() + CHECK_INTERVAL);
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        if !self.file.metadata()?.is_file() || !self.is_in_place() {
            return Err(io::Error::other("the path is not that of the open file"));
        }
        let backup = backups::free_name(&self.path, Timestamp::now());
        let old = self.file.metadata()?;
        std::fs::rename(&self.path, &backup)?;
        // If this fails, the next line goes to the old file, and `follow` tries again.
        let file = open(&self.path)?;
        keep_owner(&file, &old);
        self.size = size(&file);
        self.file = file;
        Ok(())
    }

    /// Removes and compresses old files on a thread of its own. There is at most one at a time;
    /// the next rotation catches up.
    fn clean(&mut self) {
        let is_running = self.cleaning.as_ref().is_some_and(|one| !one.is_finished());
        if self.rotation.max_bytes == 0 || is_running {
            return;
        }
        let (path, rotation) = (self.path.clone(), self.rotation.clone());
        let clean = move || {
            if let Err(error) = backups::clean(&path, &rotation, Timestamp::now()) {
                tracing::warn!(%error, "old audit logs not cleaned");
            }
        };
        let thread = std::thread::Builder::new().name("insula-audit-old".to_owned());
        self.cleaning = thread.spawn(clean).ok();
    }

    /// Returns the lines that still fit into the file, at least one.
    fn fitting<'a>(&self, lines: &'a [u8]) -> &'a [u8] {
        let max = self.rotation.max_bytes;
        let left = usize::try_from(max.saturating_sub(self.size)).unwrap_or(usize::MAX);
        if max == 0 || lines.len() <= left {
            return lines;
        }
        let whole = memchr::memrchr(b'\n', &lines[..left]).map_or(0, |at| at + 1);
        &lines[..whole.max(first_line(lines))]
    }

    fn is_in_place(&self) -> bool {
        let which = |file: &Metadata| (file.dev(), file.ino());
        match (std::fs::metadata(&self.path), self.file.metadata()) {
            (Ok(there), Ok(here)) => which(&there) == which(&here),
            _ => false,
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if self.whole {
            self.follow();
            self.rotate_if_full(first_line(lines));
        }
        let written = self.file.write(self.fitting(lines))?;
        self.size += written as u64;
        if let Some(last) = lines[..written].last() {
            self.whole = *last == b'\n';
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if let Some(cleaning) = self.cleaning.take() {
            // It logs its own errors.
            cleaning.join().ok();
        }
        Ok(())
    }
}

/// Returns the length of the first line, with its end.
fn first_line(lines: &[u8]) -> usize {
    memchr::memchr(b'\n', lines).map_or(lines.len(), |at| at + 1)
}

fn size(file: &File) -> u64 {
    file.metadata().map_or(0, |file| file.len())
}

/// Gives a new file the mode and, if possible, the owner of the old one, for programs that read
/// both.
fn keep_owner(file: &File, old: &Metadata) {
    let mode = PermissionsExt::from_mode(old.mode() & 0o777);
    if let Err(error) = file.set_permissions(mode) {
        tracing::warn!(%error, "mode of the audit log not kept");
    }
    // Only root may, and only a group of its own.
    fchown(file, Some(old.uid()), Some(old.gid())).ok();
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(path)?;
    if file.metadata()?.is_file() && ends_within_a_line(path) {
        // The previous process was killed during a write.
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// Whether the file ends in a partial line. An unreadable file counts as complete.
fn ends_within_a_line(path: &Path) -> bool {
    let last = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        io::Result::Ok(last[0])
    };
    last().is_ok_and(|last| last != b'\n')
}
