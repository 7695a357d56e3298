//! The running disk: its tree, its trace and its faults, changed by one hand at a time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;

use super::faults::Faults;
use super::tree::{Owner, Tree};
use super::{Effect, Inode, Op, Syncs};

/// The state shared by the handle and the thread that answers the kernel.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Notified when `State::over` becomes true.
    end: Condvar,
}

pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) trace: Vec<Op>,
    pub(super) faults: Faults,
    pub(super) syncs: Syncs,
    pub(super) listings: Listings,
    /// Whether `statfs` reports a disk without a limit.
    pub(super) hides_limit: bool,
    /// The disk is being unmounted: all waiting ends.
    over: bool,
}

/// The open directories. Each keeps the names from when its reading began, so that later changes do
/// not shift the entries still to be read.
#[derive(Default)]
pub(super) struct Listings {
    open: HashMap<u64, Vec<Listed>>,
    next: u64,
}

#[derive(Clone)]
pub(super) struct Listed {
    pub(super) inode: Inode,
    pub(super) is_dir: bool,
    pub(super) name: Arc<OsStr>,
}

impl Shared {
    pub(super) fn new(owner: Owner) -> Shared {
        Shared {
            state: Mutex::new(State {
                tree: Tree::new(owner),
                trace: Vec::new(),
                faults: Faults::default(),
                syncs: Syncs::default(),
                listings: Listings::default(),
                hides_limit: false,
                over: false,
            }),
            end: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A caller's predicate may have panicked; the disk itself is never in an inconsistent
        // state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `delay`, or until the disk is unmounted.
    pub(super) fn pause(&self, delay: Duration) {
        let state = self.lock();
        let waited = self.end.wait_timeout_while(state, delay, |s| !s.over);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends all waiting, now and later.
    pub(super) fn finish(&self) {
        self.lock().over = true;
        self.end.notify_all();
    }

    /// Syncs a file or directory, subject to the faults.
    pub(super) fn sync(&self, inode: Inode) -> Result<(), Errno> {
        let mut state = self.lock();
        let is_dir = state.tree.node(inode)?.is_dir();
        let path = state.tree.path(inode);
        let result = state.faults.decide(&path);
        state.record_sync(inode, is_dir, result.effect);
        result.answer
    }
}

impl State {
    /// Changes the tree, if there is a change, and records the operation.
    pub(super) fn change<T>(
        &mut self,
        argument: Option<T>,
        change: impl FnOnce(&mut Tree, T) -> Result<Option<Op>, Errno>,
    ) -> Result<(), Errno> {
        if let Some(argument) = argument {
            self.trace.extend(change(&mut self.tree, argument)?);
        }
        Ok(())
    }

    /// Makes everything durable, regardless of faults, without counting syncs.
    pub(super) fn make_durable(&mut self) {
        let mut nodes: Vec<_> = self.tree.linked().map(|(i, n)| (i, n.is_dir())).collect();
        nodes.sort_unstable();
        for (inode, is_dir) in nodes {
            self.trace.push(sync_op(inode, is_dir, Effect::Durable));
        }
    }

    fn record_sync(&mut self, inode: Inode, is_dir: bool, effect: Effect) {
        self.trace.push(sync_op(inode, is_dir, effect));
        if is_dir {
            self.syncs.dirs += 1;
        } else {
            self.syncs.files += 1;
        }
    }
}

impl Listings {
    pub(super) fn open(&mut self) -> u64 {
        self.next += 1;
        self.open.insert(self.next, Vec::new());
        self.next
    }

    pub(super) fn fill(&mut self, handle: u64, names: Vec<Listed>) {
        self.open.insert(handle, names);
    }

    /// The names after the first `offset`.
    pub(super) fn rest(&self, handle: u64, offset: u64) -> &[Listed] {
        let names = self.open.get(&handle).map(Vec::as_slice);
        let rest = names.and_then(|names| names.get(offset as usize..));
        rest.unwrap_or_default()
    }

    pub(super) fn close(&mut self, handle: u64) {
        self.open.remove(&handle);
    }
}

fn sync_op(inode: Inode, is_dir: bool, effect: Effect) -> Op {
    if is_dir {
        Op::SyncDir { inode, effect }
    } else {
        Op::SyncFile { inode, effect }
    }
}
