//! The folder of a store: its lock, and whether the store in it is complete.
//!
//! ```text
//! lock      held by the process that has the folder open
//! format    written last when a store is made: without it there is no store yet
//! log/      the commit log
//! tables/   the table
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::permissions::{create_file, create_folder, restrict_tree};
use crate::{Error, Result};

const FORMAT: &str = "insula store, format 1\n";

/// A folder that only this process has open.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held, never read: the lock is released with the file.
    _lock: File,
}

impl Folder {
    /// Locks the folder, and creates it and its parents if they do not exist. Nothing in it is
    /// left open to other users: values are secrets.
    pub fn take(path: &Path) -> Result<Self> {
        let fail = |error: io::Error| unusable(path, &error);
        create_folder(path).map_err(fail)?;
        let lock = create_file(&path.join("lock")).map_err(fail)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked(path.to_path_buf())),
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        restrict_tree(path).map_err(fail)?;
        let path = path.to_path_buf();
        Ok(Self { path, _lock: lock })
    }

    /// Whether the folder holds a store; an unknown format is refused.
    ///
    /// Leftovers of an unfinished creation are removed: nothing was acknowledged before
    /// [`Self::complete`].
    pub fn holds_store(&self) -> Result<bool> {
        let marker = self.path.join("format");
        match fs::read(&marker) {
            Ok(format) if format == FORMAT.as_bytes() => {
                // The creating process may have died before the name was durable.
                self.sync_names()
                    .map_err(|error| unusable(&self.path, &error))?;
                Ok(true)
            }
            Ok(_) => Err(Error::Corrupt {
                file: marker,
                detail: "it names a format that this program does not know; \
                         was the store made by a newer version?"
                    .to_owned(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                for part in [self.log(), self.tables()] {
                    remove_if_there(&part).map_err(|error| unusable(&self.path, &error))?;
                }
                Ok(false)
            }
            Err(error) => Err(unusable(&self.path, &error)),
        }
    }

    /// Marks the store as complete. Its parts must be durable.
    pub fn complete(&self) -> Result<()> {
        let making = self.path.join("format.making");
        let write = || {
            create_file(&making)?.write_all(FORMAT.as_bytes())?;
            File::open(&making)?.sync_all()?;
            sync_folder(&self.path)?;
            fs::rename(&making, self.path.join("format"))?;
            self.sync_names()
        };
        write().map_err(|error| unusable(&self.path, &error))
    }

    /// Makes the names in the folder, its own, and those of the folders above it durable: any of
    /// them may have been created by [`Self::take`]. Folders on another file system, and those that
    /// this process may not read, existed before.
    fn sync_names(&self) -> io::Result<()> {
        let path = self.path.canonicalize()?;
        sync_folder(&path)?;
        let device = path.metadata()?.dev();
        for above in path.ancestors().skip(1) {
            if above.metadata()?.dev() != device {
                break;
            }
            match sync_folder(above) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub fn tables(&self) -> PathBuf {
        self.path.join("tables")
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::StorageFull => Error::Full(format!("no room in {path}")),
        _ => Error::Unavailable(format!("cannot use the folder {path}: {error}")),
    }
}
