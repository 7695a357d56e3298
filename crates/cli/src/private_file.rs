//! Files that only their owner may read.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Writes a file atomically, readable by its owner only. After a power cut it has the old or
/// the new content.
pub fn write(path: &Path, contents: &str) -> Result<(), Failure> {
    replace(path, contents).map_err(|error| {
        let attempted = format!("cannot write {}", path.display());
        Failure::new(&attempted, error)
    })
}

/// Reads a file that may be missing.
pub fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(contents) => Ok(Some(contents)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let attempted = format!("cannot read {}", path.display());
            Err(Failure::new(&attempted, error))
        }
    }
}

/// Creates a folder, and restricts it to its owner.
pub fn create_folder(path: &Path) -> Result<(), Failure> {
    insula_store::permissions::create_folder(path).map_err(|error| {
        let attempted = format!("cannot create the folder {}", path.display());
        Failure::new(&attempted, error)
    })
}

fn replace(path: &Path, contents: &str) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Created with mode 0600: others can open it at no time.
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(contents.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn written_file_is_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        assert!(read(&path).unwrap().is_none());
        std::fs::write(&path, "open to all").unwrap();
        write(&path, "secret").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("secret"));
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left: Vec<_> = folder.path().read_dir().unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
