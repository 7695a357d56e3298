//! A log file that may be rotated by another program.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file that lines are appended to. When it is moved or removed, a new one is created at
/// its path.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
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
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: open(path)?,
            looked: Instant::now(),
            whole: true,
            displaced: false,
        })
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
        }
        let written = self.file.write(lines)?;
        if let Some(last) = lines[..written].last() {
            self.whole = *last == b'\n';
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the next check due.
    fn later(log: &mut LogFile) {
        log.looked = Instant::now().checked_sub(2 * CHECK_INTERVAL).unwrap();
    }

    #[test]
    fn file_is_created_for_its_owner_and_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        for (before, after) in [
            (None, "one\n"),
            (Some(""), "one\n"),
            (Some("zero\n"), "zero\none\n"),
            (Some("half of ze"), "half of ze\none\n"),
        ] {
            std::fs::remove_file(&path).ok();
            if let Some(before) = before {
                std::fs::write(&path, before).unwrap();
            }
            let mut log = LogFile::open(&path).unwrap();
            log.write_all(b"one\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
            if before.is_none() {
                assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
            }
        }
    }

    #[test]
    fn moved_file_is_replaced_between_lines() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("a"), folder.path().join("a.1"));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let mut log = LogFile::open(&path).unwrap();
        log.write_all(b"one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        log.write_all(b"two\nthr").unwrap();
        later(&mut log);
        // Not within a line.
        log.write_all(b"ee\n").unwrap();
        assert_eq!(read(&moved), "one\ntwo\nthree\n");
        log.write_all(b"four\n").unwrap();
        assert_eq!(read(&path), "four\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        // Removed, and replaced by another program's file.
        for between in [None, Some("other\n")] {
            std::fs::remove_file(&path).unwrap();
            if let Some(between) = between {
                std::fs::write(&path, between).unwrap();
            }
            later(&mut log);
            log.write_all(b"five\n").unwrap();
            assert_eq!(read(&path), format!("{}five\n", between.unwrap_or("")));
        }
    }

    #[test]
    fn old_file_is_written_if_no_new_one_can_be_created() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let mut log = LogFile::open(&inner.join("a")).unwrap();
        std::fs::rename(&inner, folder.path().join("gone")).unwrap();
        later(&mut log);
        log.write_all(b"one\n").unwrap();
        let moved = folder.path().join("gone/a");
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "one\n");
        std::fs::create_dir(&inner).unwrap();
        later(&mut log);
        log.write_all(b"two\n").unwrap();
        let anew = std::fs::read_to_string(inner.join("a")).unwrap();
        assert_eq!(anew, "two\n");
    }
}
