//! A simulated disk under real code.
//!
//! [`Disk::mount`] mounts an empty file system, held in memory, at a fresh path. Programs use it
//! through `std::fs` and notice nothing. The disk records every change and every sync in its
//! [`Trace`]; from that, [`Cuts`] computes what could be left after a power cut at any point, as an
//! [`Image`] that can be laid out in an ordinary folder, opened again and checked.
//!
//! The rules of a power cut:
//!
//! - Bytes are durable once their file was synced. Of later writes each 512-byte sector
//!   survives or not, in any order; of several writes to one sector the first ones.
//! - A file's length is durable with its bytes; of later changes the first few survive.
//!   Lost bytes within the length read as before, or as zeros.
//! - A name is durable once its directory was synced. Of later changes in one directory
//!   the first few survive, independently per directory; a move between two directories
//!   survives in both or in none.
//! - A file without a surviving name is gone, synced or not.
//!
//! Not supported: hard links and symbolic links, extended attributes, writing through shared
//! memory, and permissions or times that survive a cut.

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

/// A mounted disk. Dropping it unmounts it, busy or not: open files fail from then on, as if the
/// disk had been pulled out.
pub struct Disk {
    path: PathBuf,
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    /// Dropped last, when nothing is left to guard.
    _guard: Guard,
}

/// The number of syncs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Syncs {
    /// `fsync` and `fdatasync` of files.
    pub files: u64,
    /// `fsync` of directories.
    pub dirs: u64,
}

impl Disk {
    /// Mounts an empty disk at a fresh path. If that is not possible it reports so on stderr, past
    /// the capture of test output, and returns `None`.
    pub fn mount() -> Option<Disk> {
        match Disk::try_mount() {
            Ok(disk) => Some(disk),
            Err(error) => {
                let current = std::thread::current();
                let test = current.name().unwrap_or("a test");
                // Without a stderr there is nowhere to report it.
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
        // From here on the folder is removed explicitly: no cleanup may walk into the mount.
        let path = folder.keep();
        Ok(Disk {
            _guard: Guard::over(&path),
            path,
            shared,
            session: Some(session),
        })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the caller's number to the trace, from any thread: every operation answered before the
    /// call precedes the mark.
    pub fn mark(&self, number: u64) {
        self.shared.lock().trace.push(Op::Mark(number));
    }

    /// The trace so far.
    pub fn trace(&self) -> Trace {
        self.shared.lock().trace.clone().into()
    }

    /// Makes all linked files durable, whatever the faults: a start from a given state, for example
    /// from an [`Image`] that was laid out here to be cut again.
    pub fn make_durable(&self) {
        self.shared.lock().make_durable();
    }

    /// The number of syncs so far, whatever their result.
    pub fn syncs(&self) -> Syncs {
        self.shared.lock().syncs
    }

    /// The bytes that files occupy, in pages of 4096.
    pub fn used(&self) -> u64 {
        self.shared.lock().tree.used()
    }

    /// Syncs of matching paths fail. As on Linux, un-synced data is then lost to the disk although
    /// it can still be read: a later successful sync does not help.
    ///
    /// `matches` gets the path relative to the root, which itself is the empty path. It is called
    /// while the disk is locked: it must not panic, nor use the disk.
    pub fn fail_sync(
        &self,
        matches: impl Fn(&Path) -> bool + Send + 'static,
        errno: Errno,
        times: Times,
    ) {
        self.fault(Box::new(matches), Kind::Fail { errno, times });
    }

    /// Syncs of matching paths succeed without effect, as if the program had forgotten them, to
    /// show that a check notices.
    pub fn ignore_sync(&self, matches: impl Fn(&Path) -> bool + Send + 'static) {
        self.fault(Box::new(matches), Kind::Ignore);
    }

    /// Syncs of matching paths take this much longer. Nothing else does.
    pub fn slow_sync(&self, matches: impl Fn(&Path) -> bool + Send + 'static, delay: Duration) {
        self.fault(Box::new(matches), Kind::Slow(delay));
    }

    /// Limits the space for files. A write that needs more fails with `ENOSPC`; existing files
    /// stay, and may be overwritten in place. Holes occupy nothing.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.lock().tree.capacity = bytes;
    }

    /// Limits the space for files to `bytes` more than now.
    pub fn full_after(&self, bytes: u64) {
        let mut state = self.shared.lock();
        state.tree.capacity = state.tree.used().saturating_add(bytes);
    }

    /// Reports as much room as without a limit, as thin provisioning does: programs meet the limit
    /// only when a write fails.
    pub fn hide_limit(&self) {
        self.shared.lock().hides_limit = true;
    }

    /// The room that is left.
    pub fn free(&self) -> u64 {
        let state = self.shared.lock();
        state.tree.capacity.saturating_sub(state.tree.used())
    }

    /// Removes all faults and limits.
    pub fn heal(&self) {
        let mut state = self.shared.lock();
        state.faults.clear();
        state.hides_limit = false;
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
        // Force aborts pending operations, so that no thread stays in the kernel when the process
        // ends; detaching removes the path although files may be open.
        let gone = umount2(&self.path, MntFlags::MNT_FORCE | MntFlags::MNT_DETACH);
        if let (Ok(()), Some(session)) = (gone, self.session.take()) {
            // The result of the answering thread no longer matters.
            let _ = session.join();
        }
        // Without the right to unmount, the session's own drop uses the setuid helper.
        drop(self.session.take());
        // A remaining folder is empty and harmless.
        let _ = std::fs::remove_dir(&self.path);
    }
}
