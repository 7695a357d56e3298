//! Keeps the tree in shape beside the writer: one thread flushes, another compacts.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree, SequenceNumberCounter};

/// Size at which the memtable is sealed.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// Sealed memtables that may wait for their flush before the writer has to.
const MAX_SEALED: usize = 4;
/// Runs in level 0 at which the writer waits, as in fjall.
const MAX_L0_RUNS: usize = 30;

pub struct Upkeep {
    tree: AnyTree,
    seqno: SequenceNumberCounter,
    /// Absent once the threads are told to end.
    flushes: Option<SyncSender<()>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Upkeep {
    pub fn start(tree: AnyTree, seqno: SequenceNumberCounter) -> Self {
        let (flushes, flush_wanted) = sync_channel(1);
        let (compactions, compaction_wanted) = sync_channel(1);
        let flusher = {
            let (tree, seqno) = (tree.clone(), seqno.clone());
            std::thread::spawn(move || flush_on_demand(&tree, &seqno, flush_wanted, &compactions))
        };
        let compactor = {
            let (tree, seqno) = (tree.clone(), seqno.clone());
            std::thread::spawn(move || compact_on_demand(&tree, &seqno, compaction_wanted))
        };
        Self {
            tree,
            seqno,
            flushes: Some(flushes),
            threads: vec![flusher, compactor],
        }
    }

    /// Seals a full memtable, and makes the writer wait if the threads fall behind.
    pub fn after_commit(&self) -> Result<()> {
        if self.tree.active_memtable().size() < MEMTABLE_BYTES {
            return Ok(());
        }
        self.tree.rotate_memtable();
        self.wake();
        while self.tree.sealed_memtable_count() >= MAX_SEALED
            || self.tree.l0_run_count() >= MAX_L0_RUNS
        {
            if self.threads.iter().any(JoinHandle::is_finished) {
                return Err(anyhow!("a background thread has failed"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Flushes everything now, on the caller's thread.
    pub fn flush_all(&self) -> Result<()> {
        let lock = self.tree.get_flush_lock();
        self.tree.rotate_memtable();
        self.tree.flush(&lock, self.seqno.get())?;
        drop(lock);
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        if let Some(flushes) = &self.flushes {
            // Full means that the thread is about to look anyway.
            flushes.try_send(()).ok();
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.flushes = None;
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => eprintln!("upkeep failed: {error:#}"),
                Err(_) => eprintln!("upkeep panicked"),
            }
        }
    }
}

fn flush_on_demand(
    tree: &AnyTree,
    seqno: &SequenceNumberCounter,
    wanted: Receiver<()>,
    compactions: &SyncSender<()>,
) -> Result<()> {
    while wanted.recv().is_ok() {
        let lock = tree.get_flush_lock();
        tree.flush(&lock, seqno.get())?;
        drop(lock);
        compactions.try_send(()).ok();
    }
    Ok(())
}

fn compact_on_demand(
    tree: &AnyTree,
    seqno: &SequenceNumberCounter,
    wanted: Receiver<()>,
) -> Result<()> {
    let strategy = Arc::new(Leveled::default());
    while wanted.recv().is_ok() {
        loop {
            // Nothing says whether a compaction found work but the version that it makes. A flush
            // in between makes one too, and costs one more look.
            let before = tree.current_version().id();
            tree.compact(Arc::clone(&strategy) as Arc<_>, seqno.get())?;
            if tree.current_version().id() == before {
                break;
            }
        }
    }
    Ok(())
}
