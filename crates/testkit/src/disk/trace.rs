//! What the disk was asked to do, in the order in which it saw it.

use std::ffi::OsStr;
use std::sync::Arc;

use bytes::Bytes;

use super::{Cuts, Image, Loss, Rng};

/// The number of a file or directory. Never used twice on one disk.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Inode(pub u64);

impl Inode {
    /// The directory that is always there.
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

/// What a sync did to the disk, whatever it told the caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It made everything before it durable, and said so.
    Durable,
    /// It said so, and did nothing: as if the caller had forgotten to sync.
    Nothing,
    /// It failed, and what had not been durable before it never will be.
    Dropped,
}

/// One change, or one sync, or one marker of the caller.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Op {
    /// Bytes were written to a file, which grew if they reach behind its end.
    Write {
        inode: Inode,
        offset: u64,
        data: Bytes,
    },
    /// A file was given a length: it shrank, or it grew by zeros.
    Truncate { inode: Inode, len: u64 },
    /// A file was synced, with or without its metadata.
    SyncFile { inode: Inode, effect: Effect },
    /// A new, empty file got a name.
    Create { place: Place, inode: Inode },
    /// A new, empty directory got a name.
    Mkdir { place: Place, inode: Inode },
    /// A file or directory changed its name, and took the place of what was there.
    Rename {
        from: Place,
        to: Place,
        inode: Inode,
    },
    /// A file lost its name.
    Unlink { place: Place, inode: Inode },
    /// An empty directory lost its name.
    Rmdir { place: Place, inode: Inode },
    /// A directory was synced.
    SyncDir { inode: Inode, effect: Effect },
    /// The caller's own number, from [`Disk::mark`](super::Disk::mark).
    Mark(u64),
}

/// A record of everything a disk saw up to some moment. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Trace(Arc<[Op]>);

impl Trace {
    /// The operations in order. A cut "at `n`" is right after the first `n` of them.
    pub fn ops(&self) -> &[Op] {
        &self.0
    }

    /// How many operations there are, marks included: the last point to cut at.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Walks forward through the trace, to cut at many points: far cheaper than
    /// [`cut`](Trace::cut) for each.
    pub fn cuts(&self) -> Cuts {
        Cuts::new(self.clone())
    }

    /// What the disk could hold if the power went right after the first `at` operations.
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
