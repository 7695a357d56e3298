//! Rows that are not on disk yet.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use crossbeam_skiplist::SkipMap;

use super::rows::Bounds;

/// The approximate overhead of a row.
const ROW_BYTES: usize = 128;

/// Rows in order. One thread may write while others read.
#[derive(Default)]
pub(super) struct Memory {
    /// `None`: the row is removed, here and in older sources.
    rows: SkipMap<Bytes, Option<Bytes>>,
    bytes: AtomicU64,
}

/// A row, or the removal of one.
pub(super) type Row = (Bytes, Option<Bytes>);

impl Memory {
    pub fn put(&self, key: Vec<u8>, row: Vec<u8>) {
        self.insert(key, Some(row.into()));
    }

    pub fn remove(&self, key: Vec<u8>) {
        self.insert(key, None);
    }

    fn insert(&self, key: Vec<u8>, row: Option<Bytes>) {
        let bytes = key.len() + row.as_ref().map_or(0, Bytes::len) + ROW_BYTES;
        self.rows.insert(key.into(), row);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// `Some(None)`: the row is removed.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        let entry = self.rows.get(key)?;
        Some(entry.value().clone())
    }

    /// The rows within the bounds, each as it is when the iterator reaches it.
    pub fn range<'a>(&'a self, bounds: &'a Bounds) -> Box<dyn Iterator<Item = Row> + 'a> {
        let rows = self.rows.range::<[u8], _>(bounds.as_slices());
        Box::new(rows.map(|entry| (entry.key().clone(), entry.value().clone())))
    }

    /// All rows in order.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let rows = self.rows.iter();
        rows.map(|entry| (entry.key().clone(), entry.value().clone()))
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
