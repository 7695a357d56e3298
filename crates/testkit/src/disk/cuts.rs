//! What a disk could hold after a power cut, at every point of a trace.

mod dirs;
mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::dirs::{Dirs, Edit, Survivors};
use self::file::File;
use super::{Image, Inode, Loss, Op, Rng, Trace};

/// A walk through a trace that can cut the power at its current point.
///
/// It keeps the durable and the pending state of each file and directory, so that the cost of an
/// image depends on the un-synced changes at that point, not on the history.
#[derive(Clone, Debug)]
pub struct Cuts {
    trace: Trace,
    at: usize,
    files: BTreeMap<Inode, File>,
    dirs: Dirs,
    acknowledged: Vec<u64>,
}

impl Cuts {
    pub(super) fn new(trace: Trace) -> Cuts {
        Cuts {
            trace,
            at: 0,
            files: BTreeMap::new(),
            dirs: Dirs::default(),
            acknowledged: Vec::new(),
        }
    }

    /// The number of operations before the current point.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The marks among these operations, in order.
    pub fn acknowledged(&self) -> &[u64] {
        &self.acknowledged
    }

    /// Advances until `at` operations have happened, or all. It never goes back.
    pub fn advance_to(&mut self, at: usize) {
        let trace = self.trace.clone();
        let end = at.min(trace.len());
        for op in trace.ops().get(self.at..end).unwrap_or_default() {
            self.apply(op);
            self.at += 1;
        }
    }

    /// What the disk could hold after a power cut here. The walk itself is not affected, so that
    /// one point can be cut many times.
    pub fn image(&self, loss: Loss, rng: &mut Rng) -> Image {
        let mut after = ImageBuilder {
            files: &self.files,
            dirs: self.dirs.survive(loss, rng),
            loss,
            rng,
            seen: BTreeSet::new(),
            image: Image::default(),
        };
        after.enter(Inode::ROOT, Path::new(""));
        after.image
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write {
                inode,
                offset,
                data,
            } => self.file(*inode).write(*offset, data.clone()),
            Op::Truncate { inode, len } => self.file(*inode).truncate(*len),
            Op::SyncFile { inode, effect } => self.file(*inode).sync(*effect),
            Op::SyncDir { inode, effect } => self.dirs.sync(*inode, *effect),
            Op::Mark(number) => self.acknowledged.push(*number),
            Op::Create { place, inode } => {
                self.file(*inode);
                self.dirs.record(Edit::add(self.at, place, *inode));
            }
            Op::Mkdir { place, inode } => {
                self.dirs.create(*inode);
                self.dirs.record(Edit::add(self.at, place, *inode));
            }
            Op::Rename { from, to, inode } => {
                self.dirs.record(Edit::rename(self.at, from, to, *inode));
            }
            Op::Unlink { place, inode } | Op::Rmdir { place, inode } => {
                self.dirs.record(Edit::remove(self.at, place, *inode));
            }
        }
    }

    fn file(&mut self, inode: Inode) -> &mut File {
        self.files.entry(inode).or_default()
    }
}

/// One cut, computed from the root down: only linked files and directories come back.
struct ImageBuilder<'a> {
    files: &'a BTreeMap<Inode, File>,
    dirs: Survivors,
    loss: Loss,
    rng: &'a mut Rng,
    seen: BTreeSet<Inode>,
    image: Image,
}

impl ImageBuilder<'_> {
    fn enter(&mut self, dir: Inode, path: &Path) {
        // A directory has one name, except where a failed sync dropped half of a move.
        if !self.seen.insert(dir) {
            return;
        }
        let Some(entries) = self.dirs.get(&dir).cloned() else {
            return;
        };
        for (name, inode) in entries.iter() {
            self.add(*inode, path.join(&**name));
        }
    }

    fn add(&mut self, inode: Inode, path: PathBuf) {
        if let Some(file) = self.files.get(&inode) {
            let content = file.survive(self.loss, self.rng);
            self.image.add_file(path, content);
        } else {
            self.image.add_dir(path.clone());
            self.enter(inode, &path);
        }
    }
}
