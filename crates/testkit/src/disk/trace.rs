//! The operations of a disk, in the order in which it saw them.

use std::ffi::OsStr;
use std::sync::Arc;

use bytes::Bytes;

use super::{Cuts, Image, Loss, Rng};

/// The number of a file or directory. Never reused on one disk.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Inode(pub u64);

impl Inode {
    /// The root directory.
    pub const ROOT: Inode = Inode(1);
}

/// A name in a directory.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Place {
    /// The directory that holds the name.
    pub parent: Inode,
    /// The name.
    pub name: Arc<OsStr>,
}

/// The effect of a sync on the disk, whatever it returned to the caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It succeeded and made everything before it durable.
    Durable,
    /// It succeeded without effect, as if the caller had forgotten to sync.
    Nothing,
    /// It failed, and the pending changes will never become durable.
    Dropped,
}

/// One change, sync, or mark of the caller.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Op {
    /// Bytes were written to a file, which grew if they reach beyond its end.
    Write {
        inode: Inode,
        offset: u64,
        data: Bytes,
    },
    /// The length of a file was set: it shrank, or it grew by zeros.
    Truncate { inode: Inode, len: u64 },
    /// A file was synced, with or without its metadata.
    SyncFile { inode: Inode, effect: Effect },
    /// A new, empty file was linked.
    Create { place: Place, inode: Inode },
    /// A new, empty directory was linked.
    Mkdir { place: Place, inode: Inode },
    /// A file or directory was renamed, and replaced what was there.
    Rename {
        from: Place,
        to: Place,
        inode: Inode,
    },
    /// A file was unlinked.
    Unlink { place: Place, inode: Inode },
    /// An empty directory was removed.
    Rmdir { place: Place, inode: Inode },
    /// A directory was synced.
    SyncDir { inode: Inode, effect: Effect },
    /// The caller's own number, from [`Disk::mark`](super::Disk::mark).
    Mark(u64),
}

/// A record of everything a disk saw up to some point. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Trace(Arc<[Op]>);

impl Trace {
    /// The operations in order. A cut "at `n`" is right after the first `n` of them.
    pub fn ops(&self) -> &[Op] {
        &self.0
    }

    /// The number of operations, marks included: the last point to cut at.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Walks forward through the trace, to cut at many points: far cheaper than [`cut`](Trace::cut)
    /// for each.
    pub fn cuts(&self) -> Cuts {
        Cuts::new(self.clone())
    }

    /// What the disk could hold after a power cut right after the first `at` operations.
    pub fn cut(&self, at: usize, loss: Loss, rng: &mut Rng) -> Image {
        let mut cuts = self.cuts();
        cuts.advance_to(at);
        cuts.image(loss, rng)
    }

    /// The marks among the first `at` operations, in order.
    pub fn acknowledged_before(&self, at: usize) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().take(at).filter_map(|op| match op {
            Op::Mark(number) => Some(*number),
            _ => None,
        })
    }
}

impl From<Vec<Op>> for Trace {
    fn from(ops: Vec<Op>) -> Trace {
        Trace(ops.into())
    }
}
