//! Table files that a failed flush or merge leaves behind.
//!
//! The engine removes them only when it is opened. On a full disk every attempt would leave another
//! one, until there is no room for any.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// The tables that belong to the tree, and whether others are being written.
#[derive(Default)]
pub(super) struct Leftovers {
    /// Every table that has belonged to the tree since it was opened: readers may still use one
    /// that was merged away.
    registered: Mutex<HashSet<u64>>,
    writing: RwLock<()>,
}

impl Leftovers {
    /// Held while tables are written.
    pub fn writing(&self) -> RwLockReadGuard<'_, ()> {
        self.writing.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn register(&self, tables: impl IntoIterator<Item = u64>) {
        self.registered().extend(tables);
    }

    /// Removes the table files in `folder` that never belonged to the tree. While another thread
    /// writes tables nothing is removed; the next failure tries again.
    pub fn remove(&self, folder: &Path) -> io::Result<usize> {
        let Ok(_alone) = self.writing.try_write() else {
            return Ok(0);
        };
        let registered = self.registered();
        let mut removed = 0;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let table = name.to_str().and_then(|name| name.parse().ok());
            if table.is_some_and(|table: u64| !registered.contains(&table)) {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn registered(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_that_never_belonged_to_the_tree_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["1", "2", "3", "other"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let leftovers = Leftovers::default();
        leftovers.register([1, 3]);
        let writing = leftovers.writing();
        assert_eq!(leftovers.remove(folder.path()).unwrap(), 0);
        drop(writing);
        assert_eq!(leftovers.remove(folder.path()).unwrap(), 1);
        assert!(!folder.path().join("2").exists());
        assert_eq!(folder.path().read_dir().unwrap().count(), 3);
    }
}
