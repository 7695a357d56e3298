//! The machine, described without identifying it.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result};

/// The version of lsm-tree, as pinned in `Cargo.lock`.
pub const LSM_TREE: &str = "3.1.10";

pub struct System {
    pub cpus: usize,
    /// The version, without the distribution's suffix.
    pub kernel: String,
    /// The type of the file system that the data is on.
    pub file_system: String,
}

impl System {
    pub fn of(data: &Path) -> Result<Self> {
        let version = fs::read_to_string("/proc/version")?;
        let kernel = kernel(&version).context("an unknown kernel")?;
        let mounts = fs::read_to_string("/proc/mounts")?;
        let file_system = file_system(&mounts, &data.canonicalize()?);
        Ok(Self {
            cpus: thread::available_parallelism()?.get(),
            kernel: kernel.to_owned(),
            file_system: file_system.context("an unknown file system")?,
        })
    }
}

/// Returns a folder on the disk of the build: on tmpfs there would be no syncs to measure.
pub fn data_folder() -> Result<PathBuf> {
    let folder = PathBuf::from("target/bench-data");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn kernel(version: &str) -> Option<&str> {
    version.split_whitespace().nth(2)?.split('-').next()
}

/// Returns the type of the deepest mount above the folder. Of several at one path, the last
/// wins.
fn file_system(mounts: &str, folder: &Path) -> Option<String> {
    let mount = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let place = PathBuf::from(words.next()?);
        let depth = place.components().count();
        folder
            .starts_with(place)
            .then_some((depth, words.next()?.to_owned()))
    };
    let nearest = mounts
        .lines()
        .filter_map(mount)
        .max_by_key(|(depth, _)| *depth);
    nearest.map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lsm_tree_version_is_that_of_the_lock_file() {
        let lock = include_str!("../../Cargo.lock");
        let line = format!("name = \"lsm-tree\"\nversion = \"{LSM_TREE}\"\n");
        assert!(lock.contains(&line));
    }

    #[test]
    fn kernel_version_has_no_builder() {
        let version = "Linux version 6.1.2-cloud-7 (builder@host) (gcc) #1 SMP";
        assert_eq!(kernel(version), Some("6.1.2"));
    }

    #[test]
    fn deepest_mount_is_the_file_system() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/x xfs rw 0 0\n";
        let found = |folder| file_system(mounts, Path::new(folder));
        assert_eq!(found("/home/data").as_deref(), Some("ext4"));
        assert_eq!(found("/tmp/data").as_deref(), Some("tmpfs"));
        assert_eq!(found("/tmp/x/data").as_deref(), Some("xfs"));
        assert_eq!(found("/tmpx").as_deref(), Some("ext4"));
    }
}
