//! Reads the heads of all keys when the table is opened, with all cores.

use std::num::NonZeroUsize;
use std::thread;

use bytes::Bytes;

use super::heads::{Head, Heads};
use super::rows::{self, Bounds};
use super::tree::Tree;
use crate::regions::{Region, Regions};
use crate::{Error, Result};

/// The heads that are read before the region is looked at again.
const BATCH: usize = 512;
/// The most threads that read heads.
const MAX_THREADS: usize = 16;
/// The number of rows from which on several threads read.
const MIN_ROWS: usize = 20_000;

/// Sets the heads of all keys in the tree.
pub(super) fn heads(tree: &Tree, heads: &Heads) -> Result<()> {
    let threads = match tree.rows() {
        ..MIN_ROWS => 1,
        _ => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    read_with(threads.min(MAX_THREADS), tree, heads)
}

fn read_with(threads: usize, tree: &Tree, heads: &Heads) -> Result<()> {
    let regions = Regions::new(rows::head_bounds().to_range());
    let read = || -> Result<()> {
        while let Some(region) = regions.take() {
            read_region(tree, heads, &regions, &region)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(read)).collect();
        let mut result = read();
        for other in others {
            let panicked = |_| Err(Error::Unavailable("a reader of heads panicked".to_owned()));
            result = result.and(other.join().unwrap_or_else(panicked));
        }
        result
    })
}

fn read_region(tree: &Tree, heads: &Heads, regions: &Regions, region: &Region) -> Result<()> {
    let Some(bounds) = Bounds::of(&regions.rest(region)) else {
        return Ok(());
    };
    let mut rows = tree.range(&bounds);
    let mut keys: Vec<Bytes> = Vec::with_capacity(BATCH);
    let mut values: Vec<Head> = Vec::with_capacity(BATCH);
    loop {
        keys.clear();
        values.clear();
        for row in rows.by_ref().take(BATCH) {
            let (row_key, row) = row?;
            values.push(rows::decode_head(&row).ok_or_else(|| tree.damaged())?);
            keys.push(row_key);
        }
        let accepted = regions.accept(region, &keys, keys.len() == BATCH);
        for (row_key, head) in keys.iter().zip(&values).take(accepted.count) {
            let key = rows::head_key(row_key).ok_or_else(|| tree.damaged())?;
            heads.set(key, Some(*head));
        }
        if accepted.is_last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use insula_core::Revision;

    use super::*;
    use crate::embedded::table::memory::Memory;

    #[test]
    fn heads_are_the_same_however_many_threads_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path(), 1 << 20).unwrap();
        let key = |n: u64| format!("/registry/kind-{}/{n:06}", n % 3).into_bytes();
        let head = |n: u64| Head {
            modified: Revision::new(n + 2),
            created: Revision::new(n + 1),
        };
        let memory = Memory::default();
        (0..3_000).for_each(|n| memory.put(rows::head(&key(n)), rows::encode_head(head(n))));
        memory.put(rows::mark("applied"), rows::encode_mark(Revision::new(9)));
        tree.add(&memory).unwrap();
        // Newer ones, and some that are removed.
        let memory = Memory::default();
        for n in (0..3_000).step_by(5) {
            match n % 2 {
                0 => memory.put(rows::head(&key(n)), rows::encode_head(head(n + 7))),
                _ => memory.remove(rows::head(&key(n))),
            }
        }
        tree.add(&memory).unwrap();
        for threads in [1, 2, 5] {
            let found = Heads::new();
            read_with(threads, &tree, &found).unwrap();
            for n in 0..3_100 {
                let expected = match (n, n % 5, n % 2) {
                    (3_000.., _, _) | (_, 0, 1) => None,
                    (_, 0, _) => Some(head(n + 7)),
                    _ => Some(head(n)),
                };
                assert_eq!(found.get(&key(n)), expected, "{n} with {threads}");
            }
        }
    }
}
