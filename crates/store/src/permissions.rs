//! Files and folders that only their owner may use.
//!
//! What is created here never has permissions for others, whatever the umask. Files that another
//! library creates are restricted afterwards; until then the folder around them keeps others out.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The permissions of the group and of all others.
const OTHERS: u32 = 0o077;
/// Marks a folder that several users share on purpose, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Creates a folder with its missing parents. An existing one is restricted.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    restrict(path)
}

/// Creates a file, or truncates the existing one.
pub fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Takes the permissions of others from a file or folder, if it exists.
///
/// A folder of a mounted volume may belong to another user, or be read-only. Then its permissions
/// stay, with a warning: what the process creates in it is private all the same.
pub fn restrict(path: &Path) -> io::Result<()> {
    let restricted = fs::metadata(path).and_then(|metadata| remove_others(path, &metadata));
    ignore_missing(restricted)
}

/// Restricts a folder, and everything in it. Links are not followed.
pub fn restrict_tree(folder: &Path) -> io::Result<()> {
    // From the top: once a folder is private, nothing in it can be exchanged by others.
    restrict(folder)?;
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            restrict_tree(&entry.path())?;
        } else if kind.is_file() {
            let restricted = entry.metadata();
            ignore_missing(restricted.and_then(|found| remove_others(&entry.path(), &found)))?;
        }
    }
    Ok(())
}

fn remove_others(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let warn = |reason: &str| {
        let (path, mode) = (path.display(), format!("{mode:o}"));
        tracing::warn!(%path, mode, reason, "permissions of others not removed");
    };
    if metadata.is_dir() && mode & STICKY != 0 {
        warn("the folder is shared; use one of its own");
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
        Err(error) => match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                warn(&error.to_string());
                Ok(())
            }
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

/// Files may be removed while the tree is walked.
fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn links_and_shared_folders_are_left_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, outside) = (folder.path().join("tree"), folder.path().join("outside"));
        let shared = tree.join("shared");
        fs::create_dir_all(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        fs::set_permissions(&tree, Permissions::from_mode(0o2775)).unwrap();
        fs::write(&outside, "").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        restrict_tree(&tree).unwrap();
        assert_eq!(mode(&tree), 0o2700, "the set-group-id bit stays");
        assert_eq!(mode(&shared), 0o1777);
        assert_eq!(mode(&outside), 0o644);
        restrict_tree(&folder.path().join("missing")).unwrap();
    }

    #[test]
    fn created_folders_are_private_with_their_parents() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        create_folder(&inner).unwrap();
        create_file(&inner.join("c")).unwrap();
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        assert_eq!(mode(&inner), 0o700);
        assert_eq!(mode(&inner.join("c")), 0o600);
    }
}
