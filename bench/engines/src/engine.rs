//! What the bench asks of an engine: the store's write path and nothing more.

mod fjall;
mod lsm;
mod redb;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub use fjall::Fjall;
pub use lsm::Lsm;
pub use redb::Redb;

/// Memory every engine may use to cache what it has read.
const CACHE_BYTES: usize = 256 << 20;

/// One request of a client: put `value` under `key` if the key is still at `expected`.
pub struct Write {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// The revision the client saw last; zero if the key must not exist.
    pub expected: u64,
}

/// The key had moved on: nothing was written.
#[derive(Debug)]
pub struct Conflict;

/// The answer to one write: its revision.
pub type Outcome = Result<u64, Conflict>;

pub trait Engine: Sized + Send {
    const NAME: &'static str;
    type Reader: Reader;

    /// Opens the store in this folder, creating it if it is not there.
    fn open(dir: &Path) -> Result<Self>;

    /// Compares, writes and makes durable a whole group; outcomes stand in the order of writes.
    fn commit(&mut self, group: &[Write]) -> Result<Vec<Outcome>>;

    /// The revision of the newest write.
    fn revision(&self) -> u64;

    /// Disk syncs made by `commit` since the store was opened.
    fn syncs(&self) -> u64;

    fn reader(&self) -> Self::Reader;

    /// Deletes every history record and old version that is not the current value of its key.
    fn discard_history(&mut self) -> Result<()>;

    /// Runs the engine's explicit, blocking compaction.
    fn compact(&mut self) -> Result<()>;

    /// The file into which the newest commit was written first.
    fn journal(dir: &Path) -> Result<PathBuf>;
}

pub trait Reader: Send {
    /// The current value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
}

/// A history record: the key and the value that one revision wrote.
struct Record;

impl Record {
    fn encode(key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(2 + key.len() + value.len());
        bytes.extend_from_slice(&u16::try_from(key.len())?.to_be_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Ok(bytes)
    }

    /// Splits a record into key and value.
    fn decode(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
        let (len, rest) = bytes
            .split_first_chunk::<2>()
            .ok_or_else(|| anyhow::anyhow!("short record"))?;
        rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
            .ok_or_else(|| anyhow::anyhow!("short record"))
    }
}

/// Reads a revision stored as eight big-endian bytes.
fn revision_from(bytes: &[u8]) -> Result<u64> {
    Ok(u64::from_be_bytes(bytes.try_into()?))
}
