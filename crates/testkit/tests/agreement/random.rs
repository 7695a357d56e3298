//! Random programs: operations that a disk could really have seen.

use std::ffi::OsStr;

use insula_testkit::disk::{Effect, Inode, Op, Place, Rng};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// More directories would create the enumeration of all outcomes too slow.
const MAX_DIRS: usize = 4;

struct Program<'a> {
    rng: &'a mut Rng,
    /// Every linked node, and whether it is a directory.
    held: Vec<(Place, Inode, bool)>,
    next: u64,
}

pub fn trace(count: usize, rng: &mut Rng) -> Vec<Op> {
    let mut program = Program {
        rng,
        held: Vec::new(),
        next: 2,
    };
    let mut ops = Vec::new();
    while ops.len() < count {
        ops.extend(program.step());
    }
    ops
}

impl Program<'_> {
    fn step(&mut self) -> Option<Op> {
        match self.rng.below(16) {
            0..3 => self.create(),
            3..8 => self.write(),
            8..10 => self.truncate(),
            10..12 => self.sync(),
            12 => self.remove(),
            13..15 => self.rename(),
            _ => Some(Op::Mark(self.rng.next_u64())),
        }
    }

    fn create(&mut self) -> Option<Op> {
        let place = self.free_place()?;
        let inode = Inode(self.next);
        self.next += 1;
        let is_dir = self.dirs().len() < MAX_DIRS && self.rng.below(3) == 0;
        self.held.push((place.clone(), inode, is_dir));
        Some(if is_dir {
            Op::Mkdir { place, inode }
        } else {
            Op::Create { place, inode }
        })
    }

    fn write(&mut self) -> Option<Op> {
        let inode = self.file()?;
        let data = vec![self.rng.below(255) as u8 + 1; 1 + self.rng.below(1_300)];
        Some(Op::Write {
            inode,
            offset: self.rng.below(1_500) as u64,
            data: data.into(),
        })
    }

    fn truncate(&mut self) -> Option<Op> {
        let inode = self.file()?;
        let len = self.rng.below(2_500) as u64;
        Some(Op::Truncate { inode, len })
    }

    fn sync(&mut self) -> Option<Op> {
        let effect = match self.rng.below(8) {
            0 => Effect::Dropped,
            1 => Effect::Nothing,
            _ => Effect::Durable,
        };
        if self.rng.coin() {
            let dirs = self.dirs();
            let inode = dirs[self.rng.below(dirs.len())];
            return Some(Op::SyncDir { inode, effect });
        }
        let inode = self.file()?;
        Some(Op::SyncFile { inode, effect })
    }

    fn remove(&mut self) -> Option<Op> {
        let at = self.any()?;
        let (place, inode, is_dir) = self.held[at].clone();
        if self.held.iter().any(|(place, ..)| place.parent == inode) {
            return None;
        }
        self.held.remove(at);
        Some(if is_dir {
            Op::Rmdir { place, inode }
        } else {
            Op::Unlink { place, inode }
        })
    }

    /// Moves a file anywhere, a directory to a free name in its own directory.
    fn rename(&mut self) -> Option<Op> {
        let at = self.any()?;
        let (from, inode, is_dir) = self.held[at].clone();
        let to = match self.any() {
            Some(other) if !is_dir && !self.held[other].2 && self.rng.coin() => {
                self.held[other].0.clone()
            }
            _ => self.free_place()?,
        };
        if from == to || (is_dir && to.parent != from.parent) {
            return None;
        }
        self.held
            .retain(|(place, ..)| *place != to && *place != from);
        self.held.push((to.clone(), inode, is_dir));
        Some(Op::Rename { from, to, inode })
    }

    fn dirs(&self) -> Vec<Inode> {
        let dirs = self.held.iter().filter(|(.., is_dir)| *is_dir);
        let mut dirs: Vec<_> = dirs.map(|(_, inode, _)| *inode).collect();
        dirs.push(Inode::ROOT);
        dirs
    }

    fn free_place(&mut self) -> Option<Place> {
        let dirs = self.dirs();
        let parent = dirs[self.rng.below(dirs.len())];
        let name = OsStr::new(NAMES[self.rng.below(NAMES.len())]).into();
        let place = Place { parent, name };
        let taken = self.held.iter().any(|(held, ..)| *held == place);
        (!taken).then_some(place)
    }

    fn any(&mut self) -> Option<usize> {
        (!self.held.is_empty()).then(|| self.rng.below(self.held.len()))
    }

    fn file(&mut self) -> Option<Inode> {
        let files: Vec<_> = self.held.iter().filter(|(.., is_dir)| !is_dir).collect();
        let at = self.rng.below(files.len());
        files.get(at).map(|(_, inode, _)| *inode)
    }
}
