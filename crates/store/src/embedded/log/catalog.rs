//! The log segments in use.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use insula_core::Revision;

use super::segment::Segment;

/// The segments in use, oldest first. The last one is being written.
#[derive(Debug)]
pub(in crate::embedded) struct Catalog {
    segments: RwLock<VecDeque<Arc<Segment>>>,
}

impl Catalog {
    pub(super) fn new(segments: Vec<Arc<Segment>>) -> Self {
        Self {
            segments: RwLock::new(segments.into()),
        }
    }

    pub(super) fn push(&self, segment: Arc<Segment>) {
        self.write().push_back(segment);
    }

    /// The segment that holds `revision`, or would: the last that begins at or before it.
    pub(super) fn holding(&self, revision: Revision) -> Option<Arc<Segment>> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let begins = |segment: &&Arc<Segment>| {
            let first = segment.first.get();
            first.is_some_and(|first| *first <= revision)
        };
        segments.iter().rev().find(begins).cloned()
    }

    /// The segment after the one with this sequence number.
    pub(super) fn following(&self, sequence: u64) -> Option<Arc<Segment>> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let mut later = segments.iter();
        later.find(|segment| segment.sequence > sequence).cloned()
    }

    /// The first revision in the log.
    pub(super) fn first(&self) -> Option<Revision> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.front()?.first.get().copied()
    }

    /// Removes the segments with no revision above `through`, except the one being
    /// written. Returns how many were removed.
    ///
    /// A file that cannot be removed stays until the next start; it does no harm.
    pub(in crate::embedded) fn trim(&self, through: Revision) -> usize {
        let mut removed = 0;
        while let Some(segment) = self.pop_below(through) {
            if let Err(error) = std::fs::remove_file(&segment.path) {
                tracing::warn!(path = %segment.path.display(), %error, "log segment removal failed");
            }
            removed += 1;
        }
        removed
    }

    fn pop_below(&self, through: Revision) -> Option<Arc<Segment>> {
        let mut segments = self.write();
        let next_first = *segments.get(1)?.first.get()?;
        if next_first.previous() > through {
            return None;
        }
        segments.pop_front()
    }

    /// The size of all segments.
    pub(in crate::embedded) fn bytes(&self) -> u64 {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.iter().map(|segment| segment.size).sum()
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, VecDeque<Arc<Segment>>> {
        self.segments
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
