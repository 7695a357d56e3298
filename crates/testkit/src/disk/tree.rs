//! The disk as the running program sees it: a tree of files in memory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use nix::errno::Errno;

use super::content::{Content, MAX_LEN, PAGE};
use super::{Inode, Op, Place};

type Names = BTreeMap<Arc<OsStr>, Inode>;

/// Every change returns the operation that describes it, for the trace.
pub(super) struct Tree {
    nodes: HashMap<Inode, Node>,
    next: u64,
    used: u64,
    pub(super) capacity: u64,
}

pub(super) struct Node {
    pub(super) body: Body,
    /// Its name, or the last one it had.
    place: Place,
    linked: bool,
    opens: usize,
    pub(super) owner: Owner,
    pub(super) changed: SystemTime,
}

pub(super) enum Body {
    File(Content),
    Dir(Names),
}

/// Owner and permissions of a node.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
}

impl Tree {
    pub(super) fn new(owner: Owner) -> Tree {
        let place = Place {
            parent: Inode::ROOT,
            name: OsStr::new("").into(),
        };
        let root = Node::new(Body::Dir(Names::new()), place, owner);
        Tree {
            nodes: HashMap::from([(Inode::ROOT, root)]),
            next: Inode::ROOT.0 + 1,
            used: 0,
            capacity: u64::MAX,
        }
    }

    /// The bytes that files occupy, in whole pages.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn node(&self, inode: Inode) -> Result<&Node, Errno> {
        // The kernel resolves the path again when it is told that its inode number is stale.
        self.nodes.get(&inode).ok_or(Errno::ESTALE)
    }

    pub(super) fn node_mut(&mut self, inode: Inode) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&inode).ok_or(Errno::ESTALE)
    }

    pub(super) fn lookup(&self, parent: Inode, name: &OsStr) -> Result<Inode, Errno> {
        let names = self.node(parent)?.names()?;
        names.get(name).copied().ok_or(Errno::ENOENT)
    }

    /// The path from the root, which itself is empty.
    pub(super) fn path(&self, inode: Inode) -> PathBuf {
        let mut names = Vec::new();
        let mut at = inode;
        while let Some(node) = self.nodes.get(&at).filter(|_| at != Inode::ROOT) {
            names.push(&*node.place.name);
            at = node.place.parent;
        }
        names.into_iter().rev().collect()
    }

    /// Every linked node.
    pub(super) fn linked(&self) -> impl Iterator<Item = (Inode, &Node)> + '_ {
        let nodes = self.nodes.iter().filter(|(_, node)| node.linked);
        nodes.map(|(inode, node)| (*inode, node))
    }

    pub(super) fn create(&mut self, place: Place, owner: Owner) -> Result<(Inode, Op), Errno> {
        let inode = self.add(place.clone(), Body::File(Content::default()), owner)?;
        Ok((inode, Op::Create { place, inode }))
    }

    pub(super) fn mkdir(&mut self, place: Place, owner: Owner) -> Result<(Inode, Op), Errno> {
        let inode = self.add(place.clone(), Body::Dir(Names::new()), owner)?;
        Ok((inode, Op::Mkdir { place, inode }))
    }

    pub(super) fn unlink(&mut self, place: Place) -> Result<Op, Errno> {
        let inode = self.lookup(place.parent, &place.name)?;
        if self.node(inode)?.is_dir() {
            return Err(Errno::EISDIR);
        }
        self.remove(&place, inode)?;
        Ok(Op::Unlink { place, inode })
    }

    pub(super) fn rmdir(&mut self, place: Place) -> Result<Op, Errno> {
        let inode = self.lookup(place.parent, &place.name)?;
        if !self.node(inode)?.names()?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.remove(&place, inode)?;
        Ok(Op::Rmdir { place, inode })
    }

    /// `None` if both are names of one node, and there is nothing to do.
    pub(super) fn rename(&mut self, from: Place, to: Place) -> Result<Option<Op>, Errno> {
        let inode = self.lookup(from.parent, &from.name)?;
        match self.lookup(to.parent, &to.name) {
            Ok(replaced) if replaced == inode => return Ok(None),
            Ok(replaced) => {
                self.check_replaced(inode, replaced)?;
                self.remove(&to, replaced)?;
            }
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        self.names_mut(to.parent)?.insert(to.name.clone(), inode);
        self.names_mut(from.parent)?.remove(&from.name);
        self.node_mut(inode)?.place = to.clone();
        Ok(Some(Op::Rename { from, to, inode }))
    }

    pub(super) fn write(&mut self, inode: Inode, offset: u64, data: &[u8]) -> Result<Op, Errno> {
        let end = offset + data.len() as u64;
        self.reserve(inode, offset, end)?;
        self.file_mut(inode)?.write(offset, data);
        Ok(Op::Write {
            inode,
            offset,
            data: Bytes::copy_from_slice(data),
        })
    }

    pub(super) fn truncate(&mut self, inode: Inode, len: u64) -> Result<Op, Errno> {
        if len > MAX_LEN {
            return Err(Errno::EFBIG);
        }
        let file = self.file_mut(inode)?;
        let before = file.allocated();
        file.set_len(len);
        let freed = before - file.allocated();
        self.used -= (freed * PAGE) as u64;
        Ok(Op::Truncate { inode, len })
    }

    /// Allocates space for `offset..end`. `None` if the length does not change.
    pub(super) fn allocate(
        &mut self,
        inode: Inode,
        offset: u64,
        end: u64,
    ) -> Result<Option<Op>, Errno> {
        self.reserve(inode, offset, end)?;
        let file = self.file_mut(inode)?;
        let before = file.len();
        file.allocate(offset, end);
        Ok((end > before).then_some(Op::Truncate { inode, len: end }))
    }

    pub(super) fn open(&mut self, inode: Inode) -> Result<(), Errno> {
        self.node_mut(inode)?.opens += 1;
        Ok(())
    }

    pub(super) fn release(&mut self, inode: Inode) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.opens = node.opens.saturating_sub(1);
        }
        self.free_unused(inode);
    }

    fn add(&mut self, place: Place, body: Body, owner: Owner) -> Result<Inode, Errno> {
        let inode = Inode(self.next);
        let names = self.names_mut(place.parent)?;
        if names.contains_key(&place.name) {
            return Err(Errno::EEXIST);
        }
        names.insert(place.name.clone(), inode);
        self.nodes.insert(inode, Node::new(body, place, owner));
        self.next += 1;
        Ok(inode)
    }

    fn check_replaced(&self, inode: Inode, replaced: Inode) -> Result<(), Errno> {
        let (moved, replaced) = (self.node(inode)?, self.node(replaced)?);
        match (moved.is_dir(), replaced.names()) {
            (true, Err(_)) => Err(Errno::ENOTDIR),
            (false, Ok(_)) => Err(Errno::EISDIR),
            (true, Ok(names)) if !names.is_empty() => Err(Errno::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    fn remove(&mut self, place: &Place, inode: Inode) -> Result<(), Errno> {
        self.names_mut(place.parent)?.remove(&place.name);
        self.node_mut(inode)?.linked = false;
        self.free_unused(inode);
        Ok(())
    }

    /// An unlinked file stays as long as it is open.
    fn free_unused(&mut self, inode: Inode) {
        let unused = |node: &Node| !node.linked && node.opens == 0;
        if self.nodes.get(&inode).is_some_and(unused)
            && let Some(node) = self.nodes.remove(&inode)
            && let Body::File(content) = node.body
        {
            self.used -= (content.allocated() * PAGE) as u64;
        }
    }

    fn reserve(&mut self, inode: Inode, offset: u64, end: u64) -> Result<(), Errno> {
        if end > MAX_LEN {
            return Err(Errno::EFBIG);
        }
        let room = (self.node(inode)?.content()?.missing(offset, end) * PAGE) as u64;
        if room > 0 && self.used + room > self.capacity {
            return Err(Errno::ENOSPC);
        }
        self.used += room;
        Ok(())
    }

    fn names_mut(&mut self, inode: Inode) -> Result<&mut Names, Errno> {
        let node = self.node_mut(inode)?;
        node.changed = SystemTime::now();
        match &mut node.body {
            Body::Dir(names) => Ok(names),
            Body::File(_) => Err(Errno::ENOTDIR),
        }
    }

    fn file_mut(&mut self, inode: Inode) -> Result<&mut Content, Errno> {
        let node = self.node_mut(inode)?;
        node.changed = SystemTime::now();
        match &mut node.body {
            Body::File(content) => Ok(content),
            Body::Dir(_) => Err(Errno::EISDIR),
        }
    }
}

impl Node {
    fn new(body: Body, place: Place, owner: Owner) -> Node {
        Node {
            body,
            place,
            linked: true,
            opens: 0,
            owner,
            changed: SystemTime::now(),
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        matches!(self.body, Body::Dir(_))
    }

    pub(super) fn is_linked(&self) -> bool {
        self.linked
    }

    pub(super) fn names(&self) -> Result<&Names, Errno> {
        match &self.body {
            Body::Dir(names) => Ok(names),
            Body::File(_) => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn content(&self) -> Result<&Content, Errno> {
        match &self.body {
            Body::File(content) => Ok(content),
            Body::Dir(_) => Err(Errno::EISDIR),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_space_is_reserved_at_once_for_later_writes() {
        let owner = Owner {
            uid: 0,
            gid: 0,
            mode: 0o755,
        };
        let mut tree = Tree::new(owner);
        let name = OsStr::new("segment").into();
        let parent = Inode::ROOT;
        let (inode, _) = tree.create(Place { parent, name }, owner).unwrap();
        tree.capacity = 3 * PAGE as u64;
        let op = tree.allocate(inode, 0, 10_000).unwrap();
        assert_eq!(op, Some(Op::Truncate { inode, len: 10_000 }));
        assert_eq!(tree.allocate(inode, 0, 5_000).unwrap(), None);
        assert_eq!(tree.used(), tree.capacity);
        assert_eq!(tree.allocate(inode, 0, 20_000), Err(Errno::ENOSPC));
        tree.write(inode, 9_990, b"fits").unwrap();
        assert_eq!(tree.write(inode, 12_288, b"does not"), Err(Errno::ENOSPC));
        tree.truncate(inode, 1).unwrap();
        assert_eq!(tree.used(), PAGE as u64);
    }
}
