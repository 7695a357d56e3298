//! Records in a folder, for a store that one process has open.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use insula_store::permissions::{create_file, create_folder, restrict_tree};
use ring::digest::{SHA256, digest};
use tokio::task::spawn_blocking;

use super::{DATA_KEYS, KeyStorage, Listed, ROOT_KEYS, STORE, Version};
use crate::record::{self, StoreRecord};
use crate::{Error, Result};

/// A folder of records. It is beside the store's folder, so that what is destroyed here is in no
/// copy of the store.
#[derive(Clone, Debug)]
pub struct FolderStorage {
    folder: Arc<Path>,
    /// Held by the thread that compares and writes, so that a write goes on undisturbed although its
    /// caller was cancelled. Other processes are kept out by the store's lock.
    writing: Arc<Mutex<()>>,
}

/// The ending of the records' files.
const ENDING: &str = ".json";
/// The ending of files that are being written.
const UNFINISHED: &str = ".tmp";

impl FolderStorage {
    /// Creates the folder if it is missing. Only its owner may use it.
    pub fn open(folder: PathBuf) -> Result<Self> {
        let create = || {
            create_folder(&folder)?;
            for part in [DATA_KEYS, ROOT_KEYS] {
                create_folder(&folder.join(part))?;
            }
            restrict_tree(&folder)?;
            sync_folder(&folder)?;
            sync_folder(parent(&folder))
        };
        create().map_err(|error| failed(&folder, &error))?;
        Ok(Self::existing(folder))
    }

    /// A folder that exists. It is only read.
    pub fn existing(folder: PathBuf) -> Self {
        Self {
            folder: folder.into(),
            writing: Arc::default(),
        }
    }

    /// Lets the next start use the store that it finds with the keys of a folder.
    pub fn accept_store(folder: &Path) -> Result<()> {
        let record = record::encode(&StoreRecord::default())?;
        let path = folder.join(format!("{STORE}{ENDING}"));
        replace(&path, &record).map_err(|error| failed(&path, &error))
    }

    /// Whether a folder contains data keys.
    pub fn contains_keys(folder: &Path) -> Result<bool> {
        let keys = folder.join(DATA_KEYS);
        match fs::read_dir(&keys) {
            Ok(mut found) => Ok(found.next().is_some()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            // A folder that cannot be read may contain keys.
            Err(error) => Err(failed(&keys, &error)),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}{ENDING}"))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let path = self.path(name);
        let worked = spawn_blocking(move || work(&path).map_err(|error| failed(&path, &error)));
        worked
            .await
            .unwrap_or_else(|error| Err(Error::Storage(error.to_string())))
    }
}

/// The version of a record is a digest of its content: equal content is the same record.
fn version_of(record: &[u8]) -> Version {
    let mut first = [0; 8];
    first.copy_from_slice(&digest(&SHA256, record).as_ref()[..8]);
    Version(u64::from_be_bytes(first))
}

fn version_at(path: &Path) -> io::Result<Option<Version>> {
    Ok(read(path)?.map(|record| version_of(&record)))
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

#[async_trait]
impl KeyStorage for FolderStorage {
    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let folder = self.folder.join(prefix);
        let all =
            spawn_blocking(move || read_all(&folder).map_err(|error| failed(&folder, &error)));
        all.await
            .unwrap_or_else(|error| Err(Error::Storage(error.to_string())))
    }

    async fn get(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>> {
        let found = self.blocking(name, read).await?;
        Ok(found.map(|record| {
            let version = version_of(&record);
            (record, version)
        }))
    }

    async fn put(
        &self,
        name: &str,
        record: &[u8],
        expected: Option<Version>,
        guard: Option<(&str, Version)>,
    ) -> Result<bool> {
        let (record, writing) = (record.to_vec(), Arc::clone(&self.writing));
        let guard = guard.map(|(name, version)| (self.path(name), version));
        let write = move |path: &Path| {
            let _writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
            if version_at(path)? != expected {
                return Ok(false);
            }
            if let Some((guarded, version)) = guard
                && version_at(&guarded)? != Some(version)
            {
                return Ok(false);
            }
            replace(path, &record)?;
            Ok(true)
        };
        self.blocking(name, write).await
    }

    async fn remove(&self, name: &str, expected: Version) -> Result<bool> {
        let writing = Arc::clone(&self.writing);
        let remove = move |path: &Path| {
            let _writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
            if version_at(path)? != Some(expected) {
                return Ok(false);
            }
            fs::remove_file(path)?;
            sync_folder(parent(path))?;
            Ok(true)
        };
        self.blocking(name, remove).await
    }

    fn place(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn is_in_store(&self) -> bool {
        false
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// After a power cut the file has the old or the new content.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = PathBuf::from(unfinished);
    let mut file = create_file(&unfinished)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    sync_folder(parent(path))
}

fn read_all(folder: &Path) -> io::Result<Vec<Listed>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(ENDING)) {
            let record = fs::read(entry.path())?;
            all.push(Listed {
                name: name.to_owned(),
                version: version_of(&record),
                record,
            });
        }
    }
    all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Storage(format!("cannot use {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn records_are_private_files_that_are_replaced_whole() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("encryption");
        assert_eq!(FolderStorage::contains_keys(&folder), Ok(false));
        let storage = FolderStorage::open(folder.clone()).unwrap();
        assert_eq!(FolderStorage::contains_keys(&folder), Ok(false));
        let name = "data-keys/u";
        assert_eq!(storage.get(name).await, Ok(None));
        assert_eq!(storage.put(name, b"1", None, None).await, Ok(true));
        assert_eq!(storage.put(name, b"2", None, None).await, Ok(false));
        let (record, version) = storage.get(name).await.unwrap().unwrap();
        assert_eq!(record, b"1");
        assert_eq!(storage.put(name, b"3", Some(version), None).await, Ok(true));
        assert_eq!(
            storage.put(name, b"4", Some(version), None).await,
            Ok(false)
        );
        assert_eq!(storage.remove(name, version).await, Ok(false));
        let (_, version) = storage.get(name).await.unwrap().unwrap();
        let listed = storage.list(DATA_KEYS).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((&*listed[0].name, &*listed[0].record), ("u", &b"3"[..]));
        assert_eq!(FolderStorage::contains_keys(&folder), Ok(true));
        insula_testkit::permissions::assert_private(&folder);
        assert_eq!(storage.remove(name, version).await, Ok(true));
        assert_eq!(storage.list(DATA_KEYS).await.unwrap(), []);
    }

    #[tokio::test]
    async fn record_is_written_only_beside_the_record_that_guards_it() {
        let folder = tempfile::tempdir().unwrap();
        let storage = FolderStorage::open(folder.path().to_owned()).unwrap();
        let (name, guard) = ("data-keys/u", "root-keys/r");
        storage.put(guard, b"active", None, None).await.unwrap();
        let (_, active) = storage.get(guard).await.unwrap().unwrap();
        let retire = storage.put(guard, b"retired", Some(active), None).await;
        assert_eq!(retire, Ok(true));
        let guarded = storage.put(name, b"1", None, Some((guard, active))).await;
        assert_eq!(guarded, Ok(false));
        assert_eq!(storage.get(name).await, Ok(None));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_of_many_creations_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let storage = FolderStorage::open(folder.path().to_owned()).unwrap();
        let mut writes = tokio::task::JoinSet::new();
        for index in 0..16_u8 {
            let storage = storage.clone();
            writes.spawn(async move { storage.put("data-keys/u", &[index], None, None).await });
        }
        let written = writes.join_all().await;
        assert_eq!(written.iter().filter(|put| **put == Ok(true)).count(), 1);
    }

    #[test]
    fn folder_that_cannot_be_read_is_not_taken_for_one_without_keys() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("encryption");
        fs::write(&folder, "not a folder").unwrap();
        let found = FolderStorage::contains_keys(&folder);
        assert!(matches!(found, Err(Error::Storage(_))), "{found:?}");
    }
}
