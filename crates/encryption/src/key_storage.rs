//! Where records of keys are kept.

mod folder;
mod in_store;

use async_trait::async_trait;

pub use self::folder::FolderStorage;
pub use self::in_store::StoreStorage;
use crate::Result;

/// The prefix of the names of data keys.
pub(crate) const DATA_KEYS: &str = "data-keys/";
/// The prefix of the names of root keys.
pub(crate) const ROOT_KEYS: &str = "root-keys/";
/// The name of the record about rewriting.
pub(crate) const REWRITE: &str = "rewrite";

/// The name of the record about the store that the keys belong to, and of that store's ID.
pub(crate) const STORE: &str = "store";

/// The version of a record, which changes with each write by another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

/// A record in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name, without the prefix.
    pub name: String,
    /// The content.
    pub record: Vec<u8>,
    /// The version.
    pub version: Version,
}

/// Records of keys, by name.
#[async_trait]
pub trait KeyStorage: Send + Sync {
    /// Returns the records below a prefix, in the order of their names.
    async fn list(&self, prefix: &str) -> Result<Vec<Listed>>;

    /// Returns a record, with every write that was acknowledged before the call.
    async fn get(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>>;

    /// Writes a record durably. Returns `false` without writing if the record is not at `expected`
    /// (absent for `None`), or `guard` not at its version.
    async fn put(
        &self,
        name: &str,
        record: &[u8],
        expected: Option<Version>,
        guard: Option<(&str, Version)>,
    ) -> Result<bool>;

    /// Removes a record durably. Returns `false` without removing if it is not at `expected`.
    async fn remove(&self, name: &str, expected: Version) -> Result<bool>;

    /// Returns the place of a record, for errors.
    fn place(&self, name: &str) -> String;

    /// Whether the records are in the store that the keys seal the values of.
    fn is_in_store(&self) -> bool;

    /// Whether other servers use the same records.
    fn is_shared(&self) -> bool;
}
