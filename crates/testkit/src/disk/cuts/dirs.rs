//! The directories: their durable names, and the changes that a power cut may undo.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::sync::Arc;

use crate::disk::{Effect, Inode, Loss, Place, Rng};

type Names = BTreeMap<Arc<OsStr>, Inode>;

/// The names in each directory after a power cut.
pub(super) type Survivors = BTreeMap<Inode, Arc<Names>>;

#[derive(Clone, Debug)]
pub(super) struct Dirs(BTreeMap<Inode, Dir>);

#[derive(Clone, Debug, Default)]
struct Dir {
    durable: Arc<Names>,
    pending: Vec<Arc<Edit>>,
}

/// One change of names. A move between two directories is one edit, pending in both: it survives in
/// both or in none.
#[derive(Debug)]
pub(super) struct Edit {
    /// Its number in the trace.
    number: usize,
    inode: Inode,
    from: Option<Place>,
    to: Option<Place>,
}

impl Edit {
    pub(super) fn add(number: usize, to: &Place, inode: Inode) -> Edit {
        Edit {
            number,
            inode,
            from: None,
            to: Some(to.clone()),
        }
    }

    pub(super) fn remove(number: usize, from: &Place, inode: Inode) -> Edit {
        Edit {
            number,
            inode,
            from: Some(from.clone()),
            to: None,
        }
    }

    pub(super) fn rename(number: usize, from: &Place, to: &Place, inode: Inode) -> Edit {
        Edit {
            number,
            inode,
            from: Some(from.clone()),
            to: Some(to.clone()),
        }
    }

    /// The directories it changes: one, or two.
    fn dirs(&self) -> BTreeSet<Inode> {
        let places = self.from.iter().chain(&self.to);
        places.map(|place| place.parent).collect()
    }

    /// Whether it changes two directories.
    fn is_move(&self) -> bool {
        let (from, to) = (self.from.as_ref(), self.to.as_ref());
        from.zip(to)
            .is_some_and(|(from, to)| from.parent != to.parent)
    }

    fn apply(&self, dir: Inode, names: &mut Names) {
        if let Some(from) = self.from.as_ref().filter(|from| from.parent == dir)
            && names.get(&from.name) == Some(&self.inode)
        {
            names.remove(&from.name);
        }
        if let Some(to) = self.to.as_ref().filter(|to| to.parent == dir) {
            names.insert(to.name.clone(), self.inode);
        }
    }
}

impl Default for Dirs {
    fn default() -> Dirs {
        Dirs(BTreeMap::from([(Inode::ROOT, Dir::default())]))
    }
}

impl Dirs {
    pub(super) fn create(&mut self, dir: Inode) {
        self.0.entry(dir).or_default();
    }

    pub(super) fn record(&mut self, edit: Edit) {
        let edit = Arc::new(edit);
        for dir in edit.dirs() {
            self.0.entry(dir).or_default().pending.push(edit.clone());
        }
    }

    pub(super) fn sync(&mut self, dir: Inode, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Durable => self.flush(dir, usize::MAX),
            Effect::Dropped => self.drop_pending(dir),
        }
    }

    /// Makes the changes to `dir` before operation `end` durable. A move includes the other
    /// directory, up to that move.
    fn flush(&mut self, dir: Inode, end: usize) {
        let Some(state) = self.0.get_mut(&dir) else {
            return;
        };
        let count = state.pending.partition_point(|edit| edit.number < end);
        if count == 0 {
            return;
        }
        let edits: Vec<_> = state.pending.drain(..count).collect();
        let names = Arc::make_mut(&mut state.durable);
        edits.iter().for_each(|edit| edit.apply(dir, names));
        for edit in edits {
            for other in edit.dirs().into_iter().filter(|other| *other != dir) {
                self.flush(other, edit.number + 1);
            }
        }
    }

    fn drop_pending(&mut self, dir: Inode) {
        let Some(state) = self.0.get_mut(&dir) else {
            return;
        };
        for edit in std::mem::take(&mut state.pending) {
            for other in edit.dirs() {
                if let Some(state) = self.0.get_mut(&other) {
                    state.pending.retain(|held| held.number != edit.number);
                }
            }
        }
    }

    /// The names as a power cut could leave them: in each directory the first few of the un-synced
    /// changes.
    pub(super) fn survive(&self, loss: Loss, rng: &mut Rng) -> Survivors {
        let mut ends = BTreeMap::new();
        for (inode, dir) in self.0.iter().filter(|(_, dir)| !dir.pending.is_empty()) {
            let kept = loss.metadata(dir.pending.len(), rng);
            let end = dir.pending.get(kept).map_or(usize::MAX, |edit| edit.number);
            ends.insert(*inode, end);
        }
        self.agree_on_moves(&mut ends);
        let names = |(inode, dir): (&Inode, &Dir)| match ends.get(inode) {
            Some(end) => (*inode, dir.names_before(*inode, *end)),
            None => (*inode, dir.durable.clone()),
        };
        self.0.iter().map(names).collect()
    }

    /// A move that would survive in only one of its directories survives in none, nor do the
    /// changes that followed it there.
    fn agree_on_moves(&self, ends: &mut BTreeMap<Inode, usize>) {
        let moves = || {
            let pending = self.0.values().flat_map(|dir| &dir.pending);
            pending.filter(|edit| edit.is_move())
        };
        loop {
            let kept = |dir: &Inode, edit: &Edit| ends.get(dir).is_some_and(|e| edit.number < *e);
            let torn = moves().find(|edit| {
                let dirs = edit.dirs();
                dirs.iter().any(|dir| kept(dir, edit)) && !dirs.iter().all(|dir| kept(dir, edit))
            });
            let Some(edit) = torn else { return };
            for dir in edit.dirs() {
                ends.entry(dir)
                    .and_modify(|end| *end = (*end).min(edit.number));
            }
        }
    }
}

impl Dir {
    fn names_before(&self, dir: Inode, end: usize) -> Arc<Names> {
        let mut names = Names::clone(&self.durable);
        let kept = self.pending.iter().take_while(|edit| edit.number < end);
        kept.for_each(|edit| edit.apply(dir, &mut names));
        Arc::new(names)
    }
}
