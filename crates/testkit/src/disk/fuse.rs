//! Answers requests of the kernel from the tree.

mod convert;

use std::ffi::OsStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nix::errno::Errno;

use self::convert::{IntoInode, answer, attr, file_type, list, owner, place, wire};
use super::content::PAGE;
use super::state::{Shared, State};
use super::tree::Tree;
use super::{Inode, Op};

/// Only the kernel changes the tree, so it may cache every answer.
const TTL: Duration = Duration::from_secs(3600);

/// The kernel keeps its cache from one open to the next, and does not ask at each close.
const OPEN_FLAGS: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE.union(FopenFlags::FOPEN_NOFLUSH);

/// The `statfs` size of a disk without a limit: 1 TiB.
const UNLIMITED_BYTES: u64 = 1 << 40;

pub(super) struct Adapter(pub(super) Arc<Shared>);

impl Filesystem for Adapter {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.0.lock();
        let found = state.tree.lookup(parent.into_inode(), name);
        match found.and_then(|inode| attr(&state.tree, inode)) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(wire(error)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attr(&self.0.lock().tree, ino.into_inode()) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(wire(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let inode = ino.into_inode();
        let mut state = self.0.lock();
        let changed = state.change(size, |tree, len| tree.truncate(inode, len).map(Some));
        let attr = changed.and_then(|()| {
            let node = state.tree.node_mut(inode)?;
            node.owner.mode = mode.unwrap_or(node.owner.mode);
            node.owner.uid = uid.unwrap_or(node.owner.uid);
            node.owner.gid = gid.unwrap_or(node.owner.gid);
            match mtime {
                Some(TimeOrNow::SpecificTime(time)) => node.changed = time,
                Some(TimeOrNow::Now) => node.changed = SystemTime::now(),
                None => {}
            }
            attr(&state.tree, inode)
        });
        match attr {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(wire(error)),
        }
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let mut state = self.0.lock();
        let made = state
            .tree
            .mkdir(place(parent, name), owner(req, mode, umask));
        match made.and_then(|made| keep_new(&mut state, made)) {
            Ok((_, attr)) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(wire(error)),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut state = self.0.lock();
        let made = state
            .tree
            .create(place(parent, name), owner(req, mode, umask));
        let opened = made.and_then(|made| {
            let (inode, attr) = keep_new(&mut state, made)?;
            state.tree.open(inode)?;
            Ok(attr)
        });
        match opened {
            Ok(attr) => reply.created(&TTL, &attr, Generation(0), FileHandle(0), OPEN_FLAGS),
            Err(error) => reply.error(wire(error)),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let place = Some(place(parent, name));
        let done = self.0.lock().change(place, |t, p| t.unlink(p).map(Some));
        answer(reply, done);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let place = Some(place(parent, name));
        let done = self.0.lock().change(place, |t, p| t.rmdir(p).map(Some));
        answer(reply, done);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        // The kernel itself enforces the no-replace flag.
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return reply.error(fuser::Errno::EINVAL);
        }
        let (from, to) = (place(parent, name), place(newparent, newname));
        let done = self.0.lock().change(Some(from), |t, f| t.rename(f, to));
        answer(reply, done);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.lock().tree.open(ino.into_inode()) {
            Ok(()) => reply.opened(FileHandle(0), OPEN_FLAGS),
            Err(error) => reply.error(wire(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = self.0.lock();
        let content = state.tree.node(ino.into_inode()).and_then(|n| n.content());
        match content.map(|content| content.read(offset, size as usize)) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(wire(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.0.lock();
        let write = |tree: &mut Tree, data| tree.write(ino.into_inode(), offset, data).map(Some);
        match state.change(Some(data), write) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(wire(error)),
        }
    }

    /// Closing needs no answer, and a process that ends must not wait for one.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.lock().tree.release(ino.into_inode());
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(ino.into_inode(), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(ino.into_inode(), reply);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.0.lock().listings.open();
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut state = self.0.lock();
        if offset == 0 {
            match list(&state.tree, ino.into_inode()) {
                Ok(names) => state.listings.fill(fh.0, names),
                Err(error) => return reply.error(wire(error)),
            }
        }
        for (entry, next) in state.listings.rest(fh.0, offset).iter().zip(offset + 1..) {
            let kind = file_type(entry.is_dir);
            if reply.add(INodeNo(entry.inode.0), next, kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.lock().listings.close(fh.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let state = self.0.lock();
        let page = PAGE as u64;
        let capacity = match state.hides_limit {
            true => UNLIMITED_BYTES,
            false => state.tree.capacity.min(UNLIMITED_BYTES),
        };
        let blocks = capacity / page;
        let free = blocks.saturating_sub(state.tree.used() / page);
        reply.statfs(blocks, free, free, 0, 0, PAGE as u32, 255, PAGE as u32);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // Holes cannot be punched, nor ranges moved.
        if mode != 0 {
            return reply.error(fuser::Errno::EOPNOTSUPP);
        }
        let end = Some(offset.saturating_add(length));
        let allocate = |tree: &mut Tree, end| tree.allocate(ino.into_inode(), offset, end);
        let done = self.0.lock().change(end, allocate);
        answer(reply, done);
    }
}

impl Adapter {
    /// A slow sync waits in its own thread and delays nothing else.
    fn sync(&self, inode: Inode, reply: ReplyEmpty) {
        let delay = {
            let state = self.0.lock();
            state.faults.delay(&state.tree.path(inode))
        };
        let shared = self.0.clone();
        let Some(delay) = delay else {
            return answer(reply, shared.sync(inode));
        };
        let waiting = thread::Builder::new().spawn(move || {
            shared.pause(delay);
            answer(reply, shared.sync(inode));
        });
        // Without a thread the reply is dropped, which answers with an error.
        drop(waiting);
    }
}

/// Records a new node and returns its attributes.
fn keep_new(state: &mut State, (inode, op): (Inode, Op)) -> Result<(Inode, FileAttr), Errno> {
    state.trace.push(op);
    Ok((inode, attr(&state.tree, inode)?))
}
