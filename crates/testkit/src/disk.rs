//! A simulated disk under real code.
//!
//! [`Disk::mount`] puts an empty file system, held in memory, at a fresh path. Programs
//! use it through `std::fs` and notice nothing. The disk records every change and every
//! sync in its [`Trace`]; from that, [`Cuts`] works out what could be left after the power
//! went at any point, as an [`Image`] that can be laid out in an ordinary folder, opened
//! again and checked.
//!
//! The rules of a power cut:
//!
//! - Bytes are durable once their file was synced. Of later writes each 512-byte sector
//!   survives or not, in any order; of several writes to one sector the first ones.
//! - A file's length is durable with its bytes; of later changes the first few survive.
//!   What is inside the length and was lost reads as before, or as zeros.
//! - A name is durable once its directory was synced. Of later changes in one directory
//!   the first few survive, each directory for itself; a move between two directories
//!   survives in both or in none.
//! - What no surviving name leads to is gone, synced or not.
//!
//! What it does not do: hard links and symbolic links, extended attributes, writing
//! through shared memory, and permissions or times that survive a cut.

mod content;
mod cuts;
mod faults;
mod fuse;
mod guard;
mod image;
mod loss;
mod rng;
mod state;
mod trace;
mod tree;

use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fuser::{BackgroundSession, MountOption};
use nix::mount::{MntFlags, umount2};

pub use self::cuts::Cuts;
pub use self::faults::Times;
pub use self::image::Image;
pub use self::loss::Loss;
pub use self::rng::Rng;
pub use self::trace::{Effect, Inode, Op, Place, Trace};
/// An error number of the operating system, as a fault reports it.
pub use nix::errno::Errno;

use self::faults::Kind;
use self::fuse::Adapter;
use self::guard::Guard;
use self::state::Shared;
use self::tree::Owner;

/// A mounted disk. Dropping it unmounts it, busy or not: what is still open fails from
/// then on, as if the disk had been pulled out.
pub struct Disk {
    path: PathBuf,
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    /// Dropped last, by when there is nothing left to guard.
    _guard: Guard,
}

/// How often programs asked for durability.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Syncs {
    /// `fsync` and `fdatasync` of files.
    pub files: u64,
    /// `fsync` of directories.
    pub dirs: u64,
}

impl Disk {
    /// Mounts an empty disk at a fresh path. Where that cannot be done it says so on
    /// stderr, past the capture of test output, and returns `None`.
    pub fn mount() -> Option<Disk> {
        match Disk::try_mount() {
            Ok(disk) => Some(disk),
            Err(error) => {
                let current = std::thread::current();
                let test = current.name().unwrap_or("a test");
                // If even stderr is gone there is nobody left to tell.
                let _ = writeln!(io::stderr(), "SKIPPED: {test}: no FUSE here ({error})");
                None
            }
        }
    }

    fn try_mount() -> io::Result<Disk> {
        let folder = tempfile::Builder::new().prefix("insula-disk-").tempdir()?;
        let metadata = folder.path().metadata()?;
        let shared = Arc::new(Shared::new(Owner {
            uid: metadata.uid(),
            gid: metadata.gid(),
            mode: 0o755,
        }));
        let mut config = fuser::Config::default();
        config.mount_options = vec![
            MountOption::FSName("insula-disk".to_owned()),
            MountOption::DefaultPermissions,
        ];
        let session = fuser::spawn_mount(Adapter(shared.clone()), folder.path(), &config)?;
        // From here on the folder is removed by hand: nothing may walk into the mount.
        let path = folder.keep();
        Ok(Disk {
            _guard: Guard::over(&path),
            path,
            shared,
            session: Some(session),
        })
    }

    /// Where the disk is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the caller's number into the trace. From any thread: whatever was answered
    /// before the call stands before the mark.
    pub fn mark(&self, number: u64) {
        self.shared.lock().trace.push(Op::Mark(number));
    }

    /// Everything so far.
    pub fn trace(&self) -> Trace {
        self.shared.lock().trace.clone().into()
    }

    /// Makes all that has a name durable, whatever the faults say: a start from a given
    /// state, for example from an [`Image`] that was laid out here to be cut again.
    pub fn settle(&self) {
        self.shared.lock().settle();
    }

    /// The syncs so far, whatever became of them.
    pub fn syncs(&self) -> Syncs {
        self.shared.lock().syncs
    }

    /// Bytes that the files take, in pages of 4096.
    pub fn used(&self) -> u64 {
        self.shared.lock().tree.used()
    }

    /// Syncs of matching paths fail. As on Linux, what was un-synced then is lost to the
    /// disk although it can still be read: a later sync that succeeds does not help it.
    ///
    /// `matches` gets the path relative to the root, which itself is the empty path. It
    /// is asked while the disk stands still: it must not panic, nor use the disk.
    pub fn fail_sync(
        &self,
        matches: impl Fn(&Path) -> bool + Send + 'static,
        errno: Errno,
        times: Times,
    ) {
        self.fault(Box::new(matches), Kind::Fail { errno, times });
    }

    /// Syncs of matching paths succeed and do nothing: as if the program had forgotten
    /// them, to show that a check notices.
    pub fn lie_on_sync(&self, matches: impl Fn(&Path) -> bool + Send + 'static) {
        self.fault(Box::new(matches), Kind::Lie);
    }

    /// Syncs of matching paths take this much longer. Nothing else does.
    pub fn slow_sync(&self, matches: impl Fn(&Path) -> bool + Send + 'static, delay: Duration) {
        self.fault(Box::new(matches), Kind::Slow(delay));
    }

    /// Limits what files may take. A write that needs more fails with `ENOSPC`; files
    /// that are there stay, and may be overwritten in place. Holes take nothing.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.lock().tree.capacity = bytes;
    }

    /// Limits what files may take to `bytes` more than now.
    pub fn full_after(&self, bytes: u64) {
        let mut state = self.shared.lock();
        state.tree.capacity = state.tree.used().saturating_add(bytes);
    }

    /// Removes all faults and limits.
    pub fn heal(&self) {
        let mut state = self.shared.lock();
        state.faults.clear();
        state.tree.capacity = u64::MAX;
    }

    fn fault(&self, matches: faults::Matches, kind: Kind) {
        self.shared.lock().faults.add(matches, kind);
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Disk").field(&self.path).finish()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.shared.finish();
        // Force breaks off what is under way, so that no thread stays in the kernel when
        // the process ends; detaching takes the path away although files may be open.
        let gone = umount2(&self.path, MntFlags::MNT_FORCE | MntFlags::MNT_DETACH);
        if let (Ok(()), Some(session)) = (gone, self.session.take()) {
            // How the answering thread ended no longer matters to anyone.
            let _ = session.join();
        }
        // Without the right to unmount, the session's own drop asks the setuid helper.
        drop(self.session.take());
        // A folder that is left over is empty, and harms nobody.
        let _ = std::fs::remove_dir(&self.path);
    }
}
