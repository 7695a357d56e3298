//! The files of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The tracked files, and the untracked ones that git does not ignore.
pub struct Repository {
    root: PathBuf,
    /// Paths relative to the root, sorted.
    files: Vec<String>,
}

impl Repository {
    /// The repository that the working directory is in.
    pub fn open() -> Result<Self> {
        let root = git(Path::new("."), &["rev-parse", "--show-toplevel"])?;
        let root = PathBuf::from(root.trim_end());
        let listed = git(
            &root,
            &["ls-files", "--cached", "--others", "--exclude-standard"],
        )?;
        let existing = |path: &&str| root.join(path).is_file();
        let mut files: Vec<String> = listed.lines().filter(existing).map(str::to_owned).collect();
        files.sort();
        files.dedup();
        Ok(Self { root, files })
    }

    /// All files.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The files below a folder with an extension.
    pub fn below<'a>(
        &'a self,
        folder: &'a str,
        extension: &'a str,
    ) -> impl Iterator<Item = &'a str> {
        self.files
            .iter()
            .map(String::as_str)
            .filter(move |path| path.starts_with(folder) && path.ends_with(extension))
    }

    /// The text of a file.
    pub fn read(&self, path: &str) -> Result<String> {
        std::fs::read_to_string(self.root.join(path)).with_context(|| format!("cannot read {path}"))
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .current_dir(folder)
        .args(arguments)
        .output()
        .context("cannot run git")?;
    ensure!(output.status.success(), "git {arguments:?} failed");
    Ok(String::from_utf8(output.stdout)?)
}
