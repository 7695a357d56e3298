//! Writing of a broker info file: atomically, readable by its owner only, with a backup of the
//! previous one.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Zoned;
use tempfile::{NamedTempFile, PersistError};

use super::{BrokerInfo, Error};
use crate::names::TenantId;

/// The result of writing a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The backup of the previous file.
    pub backup: Option<PathBuf>,
}

/// The file contains secrets.
const MODE: u32 = 0o600;
/// The prefix of temporary files.
const PREFIX: &str = ".broker-info-";
/// The maximum number of backups within one second.
const MAX_BACKUPS: usize = 1000;

/// Returns a unique file name for a tenant.
pub fn unique_name(id: &TenantId, now: &Zoned) -> String {
    format!("broker-info-{id}-{}.subm", timestamp(now))
}

/// Checks that a file can be written at `path`, as far as that can be known in advance.
///
/// # Errors
///
/// The system's error.
pub fn check(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Write {
        attempted: "write",
        path: path.to_owned(),
        source,
    };
    if path.is_dir() {
        return Err(failed(io::Error::other("it is a folder")));
    }
    let folder = folder(path);
    if !folder.metadata().map_err(failed)?.is_dir() {
        let wrong = "its parent is not a folder";
        return Err(failed(io::Error::other(wrong)));
    }
    // The temporary file is removed at once.
    let temporary = tempfile::Builder::new().prefix(PREFIX).tempfile_in(folder);
    temporary.map(drop).map_err(failed)
}

/// Writes a file and keeps the previous one as a backup. After any failure, including a power
/// cut, `path` holds either the old file or the new one, complete.
///
/// # Errors
///
/// The system's error.
pub fn save(path: &Path, info: &BrokerInfo) -> Result<Saved, Error> {
    save_at(path, info, &Zoned::now())
}

pub(super) fn save_at(path: &Path, info: &BrokerInfo, now: &Zoned) -> Result<Saved, Error> {
    let failed = |attempted| {
        move |source| Error::Write {
            attempted,
            path: path.to_owned(),
            source,
        }
    };
    let folder = folder(path);
    let mut written = write(folder, info.encode().as_bytes()).map_err(failed("write"))?;
    let backup = loop {
        let backup = back_up(path, now).map_err(failed("back up"))?;
        match name(written, path, backup.as_deref()) {
            Ok(()) => break backup,
            // Another process wrote the file after the check: back that up too.
            Err(error) if backup.is_none() && error.error.kind() == ErrorKind::AlreadyExists => {
                written = error.file;
            }
            Err(error) => return Err(failed("write")(error.error)),
        }
    };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(failed("write"))?;
    Ok(Saved { backup })
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Renames the temporary file to `path`; it replaces a file only if that has a backup.
fn name(written: NamedTempFile, path: &Path, backup: Option<&Path>) -> Result<(), PersistError> {
    let Some(backup) = backup else {
        return written.persist_noclobber(path).map(drop);
    };
    written.persist(path).map(drop).inspect_err(|_| {
        // The old file is still in place, so a leftover backup does no harm.
        fs::remove_file(backup).ok();
    })
}

/// Writes a temporary file and syncs it.
fn write(folder: &Path, text: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Links the file at `path`, if there is one, under an unused backup name.
fn back_up(path: &Path, now: &Zoned) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(_) => {}
    }
    let stamp = timestamp(now);
    for backup in 0..MAX_BACKUPS {
        let mut name = path.as_os_str().to_owned();
        name.push(match backup {
            0 => format!(".{stamp}"),
            more => format!(".{stamp}.{more}"),
        });
        let name = PathBuf::from(name);
        match link(path, &name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            done => return done.map(|()| Some(name)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Creates a hard link that only the owner may read, or a copy where links are not supported.
fn link(path: &Path, name: &Path) -> io::Result<()> {
    match fs::hard_link(path, name) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
        Err(_) => copy(path, name)?,
        Ok(()) => {}
    }
    // A symbolic link keeps its target's permissions.
    if fs::symlink_metadata(name)?.is_file() {
        fs::set_permissions(name, Permissions::from_mode(MODE))?;
    }
    Ok(())
}

fn copy(path: &Path, name: &Path) -> io::Result<()> {
    let mut from = File::open(path)?;
    let new = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(name);
    let mut to = new?;
    io::copy(&mut from, &mut to)?;
    to.sync_all()
}

/// Formats local time as RFC 3339 without colons, which some file systems do not allow.
fn timestamp(now: &Zoned) -> String {
    let form = match now.offset().seconds() {
        0 => "%Y-%m-%dT%H_%M_%SZ",
        _ => "%Y-%m-%dT%H:%M:%S%:z",
    };
    now.strftime(form).to_string().replace(':', "_")
}
