//! Writing a broker info: whole or not at all, for its owner only, and never over an old one.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Zoned;
use tempfile::{NamedTempFile, PersistError};

use super::{BrokerInfo, Error};
use crate::names::TenantId;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Where the file is now that was there before.
    pub backup: Option<PathBuf>,
}

/// For its owner only: there are secrets in it.
const MODE: u32 = 0o600;
/// What files begin with that are not whole yet.
const PREFIX: &str = ".broker-info-";
/// How many backups of one second are told apart.
const BACKUPS: usize = 1000;

/// A name for a tenant's file that no other has.
pub fn unique_name(id: &TenantId, now: &Zoned) -> String {
    format!("broker-info-{id}-{}.subm", timestamp(now))
}

/// Whether a file can be written there, as far as that can be known before there is anything
/// to write.
///
/// # Errors
///
/// What the system says.
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
        let wrong = "what it is to be in is no folder";
        return Err(failed(io::Error::other(wrong)));
    }
    // It is gone with this line.
    let tried = tempfile::Builder::new().prefix(PREFIX).tempfile_in(folder);
    tried.map(drop).map_err(failed)
}

/// Writes a file. One that is there is kept under another name. Whatever fails, whenever the
/// power goes: at `path` is the old file or the new one, whole.
///
/// # Errors
///
/// What the system says.
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
        let backup = keep(path, now).map_err(failed("back up"))?;
        match name(written, path, backup.as_deref()) {
            Ok(()) => break backup,
            // Somebody wrote one between our looking and our writing: that is kept too.
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

/// Gives what was written its name, in place of the old one only if that was kept.
fn name(written: NamedTempFile, path: &Path, backup: Option<&Path>) -> Result<(), PersistError> {
    let Some(backup) = backup else {
        return written.persist_noclobber(path).map(drop);
    };
    written.persist(path).map(drop).inspect_err(|_| {
        // The old file is still where it was. Were its copy to stay, it would do no harm.
        fs::remove_file(backup).ok();
    })
}

/// A file without a name of its own yet, on the disk.
fn write(folder: &Path, text: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Gives what is at a path a second name that nothing had, if anything is there.
fn keep(path: &Path, now: &Zoned) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(_) => {}
    }
    let stamp = timestamp(now);
    for backup in 0..BACKUPS {
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

/// A second name for a file, for its owner only; a copy where files have but one name.
fn link(path: &Path, name: &Path) -> io::Result<()> {
    match fs::hard_link(path, name) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
        Err(_) => copy(path, name)?,
        Ok(()) => {}
    }
    // A link to somewhere else stays as it is: what it leads to is not ours.
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

/// Local time as RFC 3339 has it, without colons, which not every file system allows.
fn timestamp(now: &Zoned) -> String {
    let form = match now.offset().seconds() {
        0 => "%Y-%m-%dT%H_%M_%SZ",
        _ => "%Y-%m-%dT%H:%M:%S%:z",
    };
    now.strftime(form).to_string().replace(':', "_")
}
