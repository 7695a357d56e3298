//! The rules again, in the simplest form: always from the start, with vectors of bytes and sets of
//! numbers, and with every outcome tried in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use insula_testkit::disk::{Effect, Inode, Loss, Op, Place};

use crate::Tree;

const SECTOR: usize = 512;

pub struct Plain<'a> {
    ops: &'a [Op],
    /// The numbers of the operations on names that are durable, and of those that may survive.
    durable: BTreeSet<usize>,
    pending: BTreeSet<usize>,
}

impl<'a> Plain<'a> {
    pub fn new(ops: &'a [Op]) -> Plain<'a> {
        let mut plain = Plain {
            ops,
            durable: BTreeSet::new(),
            pending: BTreeSet::new(),
        };
        for (number, op) in ops.iter().enumerate() {
            match op {
                Op::SyncDir { inode, effect } => plain.sync(*inode, *effect),
                op if !dirs(op).is_empty() => {
                    plain.pending.insert(number);
                }
                _ => {}
            }
        }
        plain
    }

    /// The tree that a deterministic cut leaves.
    pub fn tree(&self, loss: Loss) -> Tree {
        let mut names = self.durable.clone();
        if loss != Loss::Everything {
            names.extend(&self.pending);
        }
        let fill = |inode| {
            let (mut bytes, pending) = self.file(inode);
            for op in pending {
                match loss {
                    Loss::Everything => {}
                    Loss::Data => apply_length(op, &mut bytes),
                    _ => apply(op, &mut bytes),
                }
            }
            bytes
        };
        self.lay_out(&names, &fill)
    }

    /// Panics unless the rules allow `tree`.
    pub fn assert_allowed(&self, tree: &Tree, context: &str) {
        let paths: BTreeSet<_> = tree.keys().cloned().collect();
        let mut allowed = false;
        for names in self.outcomes() {
            let layout = self.inodes(&names);
            let same = layout.keys().cloned().collect::<BTreeSet<_>>() == paths;
            allowed |= same
                && layout.iter().all(|(path, inode)| match &tree[path] {
                    Some(bytes) => !self.is_dir(*inode) && self.may_hold(*inode, bytes),
                    None => self.is_dir(*inode),
                });
        }
        assert!(allowed, "{context}: {paths:?}");
    }

    fn sync(&mut self, dir: Inode, effect: Effect) {
        let touches = |number: &usize, dir| dirs(&self.ops[*number]).contains(&dir);
        let own = self.pending.iter().copied().filter(|n| touches(n, dir));
        let mut moved: BTreeSet<usize> = own.collect();
        if effect == Effect::Nothing {
            return;
        }
        // A durable change makes all earlier changes in its directories durable.
        let mut before = 0;
        while effect == Effect::Durable && moved.len() > before {
            before = moved.len();
            let follows = |number: &usize| {
                let ours = dirs(&self.ops[*number]);
                let shares = |m: &usize| dirs(&self.ops[*m]).iter().any(|d| ours.contains(d));
                moved.iter().any(|m| number < m && shares(m))
            };
            let more: Vec<_> = self.pending.iter().copied().filter(follows).collect();
            moved.extend(more);
        }
        self.pending.retain(|number| !moved.contains(number));
        if effect == Effect::Durable {
            self.durable.extend(moved);
        }
    }

    /// Every set of operations on names that could be left: of the pending ones, those sets that
    /// leave no directory with a later but without an earlier one.
    fn outcomes(&self) -> Vec<BTreeSet<usize>> {
        let pending: Vec<_> = self.pending.iter().copied().collect();
        let mut outcomes = vec![BTreeSet::new()];
        for number in &pending {
            let clashes = |fate: &BTreeSet<usize>| {
                let ours = dirs(&self.ops[*number]);
                let earlier = pending.iter().filter(|n| *n < number && !fate.contains(n));
                earlier
                    .flat_map(|n| dirs(&self.ops[*n]))
                    .any(|dir| ours.contains(&dir))
            };
            let with: Vec<_> = outcomes
                .iter()
                .filter(|fate| !clashes(fate))
                .cloned()
                .collect();
            outcomes.extend(with.into_iter().map(|mut fate| {
                fate.insert(*number);
                fate
            }));
        }
        for fate in &mut outcomes {
            fate.extend(&self.durable);
        }
        outcomes
    }

    /// The durable bytes of a file, and the later changes.
    fn file(&self, inode: Inode) -> (Vec<u8>, Vec<&'a Op>) {
        let (mut bytes, mut pending) = (Vec::new(), Vec::new());
        for op in self.ops {
            match op {
                Op::Write { inode: i, .. } | Op::Truncate { inode: i, .. } if *i == inode => {
                    pending.push(op);
                }
                Op::SyncFile { inode: i, effect } if *i == inode => match effect {
                    Effect::Durable => pending.drain(..).for_each(|op| apply(op, &mut bytes)),
                    Effect::Dropped => pending.clear(),
                    Effect::Nothing => {}
                },
                _ => {}
            }
        }
        (bytes, pending)
    }

    fn may_hold(&self, inode: Inode, found: &[u8]) -> bool {
        let (durable, pending) = self.file(inode);
        (0..=pending.len()).any(|known| {
            let len = |ops: &[&Op]| {
                let mut bytes = durable.clone();
                ops.iter().for_each(|op| apply(op, &mut bytes));
                bytes.len()
            };
            len(&pending[..known]) == found.len()
                && (0..found.len().div_ceil(SECTOR)).all(|sector| {
                    let span = sector * SECTOR..found.len().min((sector + 1) * SECTOR);
                    let versions = versions(&durable, &pending, known, sector);
                    versions
                        .iter()
                        .any(|v| v[..span.len()] == found[span.clone()])
                })
        })
    }

    fn is_dir(&self, inode: Inode) -> bool {
        let made = |op: &Op| matches!(op, Op::Mkdir { inode: made, .. } if *made == inode);
        self.ops.iter().any(made)
    }

    /// The linked inodes by path, if exactly the numbered operations on names happened.
    fn inodes(&self, numbers: &BTreeSet<usize>) -> BTreeMap<PathBuf, Inode> {
        let mut names = BTreeMap::<(Inode, Arc<OsStr>), Inode>::new();
        let key = |place: &Place| (place.parent, place.name.clone());
        for number in numbers {
            let (from, to, inode) = edit(&self.ops[*number]);
            if let Some(from) = from.filter(|from| names.get(&key(from)) == Some(&inode)) {
                names.remove(&key(from));
            }
            names.extend(to.map(|to| (key(to), inode)));
        }
        let mut found = BTreeMap::new();
        let mut rest = vec![(PathBuf::new(), Inode::ROOT)];
        while let Some((path, dir)) = rest.pop() {
            for ((_, name), inode) in names.iter().filter(|((parent, _), _)| *parent == dir) {
                found.insert(path.join(&**name), *inode);
                rest.push((path.join(&**name), *inode));
            }
        }
        found
    }

    fn lay_out(&self, names: &BTreeSet<usize>, fill: &dyn Fn(Inode) -> Vec<u8>) -> Tree {
        let inodes = self.inodes(names).into_iter();
        let bytes = |inode| (!self.is_dir(inode)).then(|| fill(inode));
        inodes.map(|(path, inode)| (path, bytes(inode))).collect()
    }
}

/// Every content that one sector could have, with the lengths known up to `known`.
fn versions(durable: &[u8], pending: &[&Op], known: usize, sector: usize) -> Vec<Vec<u8>> {
    let start = sector * SECTOR;
    (0..=pending.len())
        .map(|kept| {
            let mut disk = durable.to_vec();
            disk.resize(8 * SECTOR, 0);
            let mut seen = durable.to_vec();
            let (mut touched, mut given_away) = (0, false);
            for (number, op) in pending.iter().enumerate() {
                let before = seen.len();
                apply(op, &mut seen);
                match op {
                    Op::Write { offset, data, .. } => {
                        let from = (*offset as usize).max(start);
                        let to = (*offset as usize + data.len()).min(start + SECTOR);
                        if from < to {
                            touched += 1;
                            if touched <= kept && !given_away {
                                disk[from..to].fill(data[0]);
                            }
                        }
                    }
                    _ => {
                        let len = seen.len();
                        if len / SECTOR == sector && len > start {
                            touched += 1;
                            if touched <= kept && !given_away && len < before {
                                disk[len..start + SECTOR].fill(0);
                            }
                        }
                        if len < before && number < known {
                            disk[len..].fill(0);
                        } else if len < before {
                            given_away |= start >= len;
                        }
                    }
                }
            }
            disk[start..start + SECTOR].to_vec()
        })
        .collect()
}

fn apply(op: &Op, bytes: &mut Vec<u8>) {
    match op {
        Op::Write { offset, data, .. } => {
            let end = *offset as usize + data.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[*offset as usize..end].copy_from_slice(data);
        }
        Op::Truncate { len, .. } => bytes.resize(*len as usize, 0),
        other => panic!("{other:?} does not change a file"),
    }
}

/// The effect of a change if its bytes are lost.
fn apply_length(op: &Op, bytes: &mut Vec<u8>) {
    match op {
        Op::Write { offset, data, .. } => {
            let end = *offset as usize + data.len();
            bytes.resize(bytes.len().max(end), 0);
        }
        op => apply(op, bytes),
    }
}

fn edit(op: &Op) -> (Option<&Place>, Option<&Place>, Inode) {
    match op {
        Op::Create { place, inode } | Op::Mkdir { place, inode } => (None, Some(place), *inode),
        Op::Unlink { place, inode } | Op::Rmdir { place, inode } => (Some(place), None, *inode),
        Op::Rename { from, to, inode } => (Some(from), Some(to), *inode),
        _ => (None, None, Inode::ROOT),
    }
}

/// The directories in which an operation changes names.
fn dirs(op: &Op) -> BTreeSet<Inode> {
    let (from, to, _) = edit(op);
    let places = from.into_iter().chain(to);
    places.map(|place| place.parent).collect()
}
