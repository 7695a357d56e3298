//! Converts between the kernel's types and the tree's.

use std::ffi::OsStr;

use fuser::{FileAttr, FileType, INodeNo, ReplyEmpty, Request};
use nix::errno::Errno;

use crate::disk::content::PAGE;
use crate::disk::state::Listed;
use crate::disk::tree::{Body, Owner, Tree};
use crate::disk::{Inode, Place};

pub(super) trait IntoInode {
    fn into_inode(self) -> Inode;
}

impl IntoInode for INodeNo {
    fn into_inode(self) -> Inode {
        Inode(self.0)
    }
}

pub(super) fn attr(tree: &Tree, inode: Inode) -> Result<FileAttr, Errno> {
    let node = tree.node(inode)?;
    let (size, blocks) = match &node.body {
        Body::File(content) => (content.len(), (content.allocated() * PAGE / 512) as u64),
        Body::Dir(_) => (PAGE as u64, (PAGE / 512) as u64),
    };
    Ok(FileAttr {
        ino: INodeNo(inode.0),
        size,
        blocks,
        atime: node.changed,
        mtime: node.changed,
        ctime: node.changed,
        crtime: node.changed,
        kind: file_type(node.is_dir()),
        perm: (node.owner.mode & 0o7777) as u16,
        nlink: u32::from(node.is_linked()) + u32::from(node.is_dir()),
        uid: node.owner.uid,
        gid: node.owner.gid,
        rdev: 0,
        blksize: PAGE as u32,
        flags: 0,
    })
}

pub(super) fn list(tree: &Tree, inode: Inode) -> Result<Vec<Listed>, Errno> {
    let dots = [".", ".."].map(|name| Listed {
        inode,
        is_dir: true,
        name: OsStr::new(name).into(),
    });
    let mut listed = Vec::from(dots);
    for (name, inode) in tree.node(inode)?.names()? {
        listed.push(Listed {
            inode: *inode,
            is_dir: tree.node(*inode)?.is_dir(),
            name: name.clone(),
        });
    }
    Ok(listed)
}

pub(super) fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(wire(error)),
    }
}

pub(super) fn wire(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error as i32)
}

pub(super) fn place(parent: INodeNo, name: &OsStr) -> Place {
    Place {
        parent: parent.into_inode(),
        name: name.into(),
    }
}

pub(super) fn owner(req: &Request, mode: u32, umask: u32) -> Owner {
    Owner {
        uid: req.uid(),
        gid: req.gid(),
        mode: mode & !umask,
    }
}

pub(super) fn file_type(is_dir: bool) -> FileType {
    if is_dir {
        FileType::Directory
    } else {
        FileType::RegularFile
    }
}
