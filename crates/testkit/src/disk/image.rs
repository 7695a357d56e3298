//! What a disk holds after the power came back.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::Content;

/// A tree of files that a power cut could have left. Cheap to create and to clone.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Every directory precedes its content.
    entries: Vec<(PathBuf, Node)>,
}

#[derive(Clone, Debug)]
enum Node {
    Dir,
    File(Arc<Content>),
}

impl Image {
    /// Lays the image out in `dir`, which is created if it does not exist and should be empty.
    ///
    /// # Errors
    /// Those of the file system of `dir`.
    pub fn write_to(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)?;
        for (path, node) in &self.entries {
            match node {
                Node::Dir => std::fs::create_dir(dir.join(path))?,
                Node::File(content) => {
                    content.write_to(&mut std::fs::File::create_new(dir.join(path))?)?;
                }
            }
        }
        Ok(())
    }

    /// The paths of all files and directories, relative to the root, parents first.
    pub fn paths(&self) -> impl Iterator<Item = &Path> + '_ {
        self.entries.iter().map(|(path, _)| path.as_path())
    }

    /// Whether `path` is a file or directory.
    pub fn holds(&self, path: impl AsRef<Path>) -> bool {
        self.paths().any(|held| held == path.as_ref())
    }

    /// The bytes of the file at `path`; `None` if there is none, or a directory.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let file = |(held, node): &(PathBuf, Node)| match node {
            Node::File(content) if held == path.as_ref() => Some(content.read(0, usize::MAX)),
            _ => None,
        };
        self.entries.iter().find_map(file)
    }

    pub(super) fn add_dir(&mut self, path: PathBuf) {
        self.entries.push((path, Node::Dir));
    }

    pub(super) fn add_file(&mut self, path: PathBuf, content: Arc<Content>) {
        self.entries.push((path, Node::File(content)));
    }
}
