//! The files that a rotated log leaves: their names, and which of them are kept.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::Rotation;

/// A file that was the log before it was rotated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The file.
    pub path: PathBuf,
    /// When it was rotated: no event in it is later.
    pub rotated: Timestamp,
    /// Whether it is compressed.
    pub compressed: bool,
}

/// The time in the name of a backup, in UTC, as in Kubernetes.
const TIME_FORMAT: &str = "%Y-%m-%dT%H-%M-%S%.3f";

const COMPRESSED: &str = ".gz";

/// The suffix of a file that is being compressed.
const PARTIAL: &str = ".gz.partial";

/// Returns an unused name for the log: `audit-2026-11-17T08-30-00.000.log`.
pub fn free_name(log: &Path, now: Timestamp) -> PathBuf {
    let (prefix, extension) = parts(log);
    let mut at = now;
    loop {
        let name = format!("{prefix}{}{extension}", at.strftime(TIME_FORMAT));
        let path = log.with_file_name(&name);
        if !path.exists() && !log.with_file_name(name + COMPRESSED).exists() {
            return path;
        }
        // Two rotations within a millisecond.
        at += Duration::from_millis(1);
    }
}

/// Returns the backups of a log, the newest first. A file that is compressed already, and not
/// yet removed, is left out.
pub fn list(log: &Path) -> io::Result<Vec<Backup>> {
    let folder = match log.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut backups = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        backups.extend(backup(log, path));
    }
    backups.sort_by(|one, other| {
        let key = |backup: &Backup| (backup.rotated, backup.compressed);
        key(other).cmp(&key(one))
    });
    backups.dedup_by(|later, kept| later.rotated == kept.rotated);
    Ok(backups)
}

fn backup(log: &Path, path: PathBuf) -> Option<Backup> {
    let (prefix, extension) = parts(log);
    let name = path.file_name()?.to_str()?;
    let (plain, compressed) = match name.strip_suffix(COMPRESSED) {
        Some(plain) => (plain, true),
        None => (name, false),
    };
    let time = plain.strip_prefix(&prefix)?.strip_suffix(&extension)?;
    let time = DateTime::strptime(TIME_FORMAT, time).ok()?;
    let rotated = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some(Backup {
        path,
        rotated,
        compressed,
    })
}

/// Returns the name before and after the time of a backup: `audit-` and `.log`.
fn parts(log: &Path) -> (String, String) {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    let dot = name.rfind('.').unwrap_or(name.len());
    (format!("{}-", &name[..dot]), name[dot..].to_owned())
}

/// Removes backups beyond the limits and compresses the others, if that is wanted.
///
/// Files are removed first, because compressing needs room on the disk. An error about one file
/// does not keep the others; the first one is returned.
pub fn clean(log: &Path, rotation: &Rotation, now: Timestamp) -> io::Result<()> {
    let backups = list(log)?;
    let max = match rotation.max_backups {
        0 => backups.len(),
        max => max,
    };
    let oldest = rotation.max_age.and_then(|age| now.checked_sub(age).ok());
    let is_old = |backup: &Backup| oldest.is_some_and(|oldest| backup.rotated < oldest);
    let of = |(index, backup): (usize, &Backup)| index >= max || is_old(backup);
    let (removed, kept): (Vec<_>, Vec<_>) = backups.iter().enumerate().partition(|one| of(*one));
    let mut result = Ok(());
    for (_, backup) in removed {
        result = result.and(remove_if_present(&backup.path));
    }
    for (_, backup) in kept {
        result = result.and(match backup.compressed {
            // The server ended after it had compressed the file and before it removed it.
            true => remove_if_present(&backup.path.with_extension("")),
            false if rotation.compress => compress(&backup.path),
            false => Ok(()),
        });
    }
    result
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Compresses a file. It is replaced in one step, so that a killed server leaves it as it was.
fn compress(path: &Path) -> io::Result<()> {
    let named = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (partial, compressed) = (named(PARTIAL), named(COMPRESSED));
    if let Err(error) = compress_to(path, &partial) {
        // What there is of it only takes room.
        remove_if_present(&partial)?;
        return Err(error);
    }
    fs::rename(&partial, &compressed)?;
    fs::remove_file(path)
}

fn compress_to(path: &Path, partial: &Path) -> io::Result<()> {
    let mut plain = File::open(path)?;
    let mode = plain.metadata()?.permissions().mode();
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true);
    let file = file.mode(mode & 0o777).open(partial)?;
    let mut encoder = GzEncoder::new(file, Compression::default());
    io::copy(&mut plain, &mut encoder)?;
    encoder.finish()?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn backups_are_named_after_their_time_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let now = at("2026-11-17T08:30:00.0004Z");
        for (log, expected) in [
            ("audit.log", "audit-2026-11-17T08-30-00.000.log"),
            ("audit", "audit-2026-11-17T08-30-00.000"),
            ("a.b.log", "a.b-2026-11-17T08-30-00.000.log"),
        ] {
            let log = folder.path().join(log);
            assert_eq!(free_name(&log, now), folder.path().join(expected));
        }
        let log = folder.path().join("audit.log");
        for taken in [
            "audit-2026-11-17T08-30-00.000.log",
            "audit-2026-11-17T08-30-00.001.log.gz",
        ] {
            fs::write(folder.path().join(taken), "").unwrap();
        }
        let next = folder.path().join("audit-2026-11-17T08-30-00.002.log");
        assert_eq!(free_name(&log, now), next);
    }

    #[test]
    fn limits_remove_the_oldest_and_leave_other_files_alone() {
        let rotation = |max_backups, days: u64, compress| Rotation {
            max_bytes: 1,
            max_backups,
            max_age: Some(Duration::from_secs(days * 86_400)).filter(|_| days > 0),
            compress,
        };
        let files = [
            "audit-2026-11-10T00-00-00.000.log.gz",
            "audit-2026-11-15T00-00-00.000.log",
            "audit-2026-11-16T00-00-00.000.log",
            // Compressed, and not yet removed.
            "audit-2026-11-16T12-00-00.000.log",
            "audit-2026-11-16T12-00-00.000.log.gz",
            "audit-2026-11-17.log",
            "audit.log",
            "other-2026-11-10T00-00-00.000.log",
        ];
        let others = [
            "audit-2026-11-17.log",
            "audit.log",
            "other-2026-11-10T00-00-00.000.log",
        ];
        let gz = "audit-2026-11-16T12-00-00.000.log.gz";
        for (rotation, kept) in [
            (
                rotation(0, 0, false),
                &[
                    "audit-2026-11-10T00-00-00.000.log.gz",
                    "audit-2026-11-15T00-00-00.000.log",
                    "audit-2026-11-16T00-00-00.000.log",
                    gz,
                ][..],
            ),
            (
                rotation(2, 0, false),
                &["audit-2026-11-16T00-00-00.000.log", gz],
            ),
            (
                rotation(0, 2, true),
                &[
                    "audit-2026-11-15T00-00-00.000.log.gz",
                    "audit-2026-11-16T00-00-00.000.log.gz",
                    gz,
                ],
            ),
            (rotation(1, 5, true), &[gz]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for name in files {
                fs::write(folder.path().join(name), name).unwrap();
            }
            let now = at("2026-11-17T00:00:00Z");
            clean(&folder.path().join("audit.log"), &rotation, now).unwrap();
            let mut expected: Vec<&str> = kept.iter().chain(&others).copied().collect();
            expected.sort_unstable();
            assert_eq!(names(folder.path()), expected, "{rotation:?}");
        }
    }

    #[test]
    fn old_files_are_removed_although_others_cannot_be_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let [oldest, middle, newest] = ["14", "15", "16"].map(|day| {
            folder
                .path()
                .join(format!("audit-2026-11-{day}T00-00-00.000.log"))
        });
        fs::write(&oldest, "oldest").unwrap();
        fs::write(&middle, "middle").unwrap();
        // Opens, and cannot be read: like a disk that fails in the middle.
        fs::create_dir(&newest).unwrap();
        let rotation = Rotation {
            max_bytes: 1,
            max_backups: 2,
            max_age: None,
            compress: true,
        };
        clean(&log, &rotation, at("2026-11-17T00:00:00Z")).unwrap_err();
        let expected = [
            "audit-2026-11-15T00-00-00.000.log.gz",
            "audit-2026-11-16T00-00-00.000.log",
        ];
        assert_eq!(names(folder.path()), expected);
    }
}
