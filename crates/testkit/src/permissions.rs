//! Permissions of files and folders.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns a folder and everything below it, with permissions.
pub fn tree(folder: &Path) -> io::Result<Vec<(PathBuf, u32)>> {
    let mode = |path: &Path| Ok::<_, io::Error>(path.metadata()?.permissions().mode() & 0o7777);
    let mut found = vec![(folder.to_path_buf(), mode(folder)?)];
    for entry in folder.read_dir()? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(tree(&path)?),
            false => found.push((path.clone(), mode(&path)?)),
        }
    }
    Ok(found)
}

/// Asserts that only the owner may use a folder and anything below it.
#[track_caller]
pub fn assert_private(folder: &Path) {
    let tree = tree(folder);
    for (path, mode) in tree.expect("the folder can be read") {
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}
