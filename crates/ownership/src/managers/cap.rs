//! The limit of update entries.

use std::collections::BTreeMap;

use super::change::join_all;
use super::record::{Entry, Operation, Record};
use crate::Set;

/// The maximum number of update entries, as in Kubernetes.
pub(super) const MAX_UPDATES: usize = 10;

/// The manager of the merged oldest updates.
const ANCIENT: &str = "ancient-changes";

/// The merged oldest updates of one version.
#[derive(Default)]
struct Bucket {
    /// The oldest entry, which becomes the bucket if there is none.
    first: Option<usize>,
    /// The entry that is the bucket.
    at: Option<usize>,
    /// The sets merged into it.
    sets: Vec<Set>,
}

/// Merges the oldest update entries of each version until the limit is met.
pub(super) fn cap(record: &mut Record<'_>) {
    let is_update = |entry: &Entry<'_>| entry.operation == Operation::Update;
    let updates = record.entries.iter().filter(|entry| is_update(entry));
    if updates.count() <= MAX_UPDATES {
        return;
    }
    let all = std::mem::take(&mut record.entries);
    let (mut updates, applies): (Vec<_>, Vec<_>) = all.into_iter().partition(is_update);
    updates.sort_by_cached_key(|entry| (entry.seconds(), entry.identity()));
    record.entries = applies;
    record.entries.extend(merge_oldest(updates));
}

fn merge_oldest(updates: Vec<Entry<'_>>) -> impl Iterator<Item = Entry<'_>> {
    let mut left = updates.len();
    let mut buckets: BTreeMap<String, Bucket> = BTreeMap::new();
    let mut entries: Vec<_> = updates.into_iter().map(Some).collect();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(entry) = entry.as_ref().filter(|entry| is_ancient(entry)) {
            buckets.entry(entry.api_version.to_string()).or_default().at = Some(at);
        }
    }
    for at in 0..entries.len() {
        let Some(entry) = entries[at].as_ref().filter(|_| left > MAX_UPDATES) else {
            break;
        };
        let bucket = buckets.entry(entry.api_version.to_string()).or_default();
        left -= usize::from(bucket.merge(at, &mut entries));
    }
    for bucket in buckets.into_values() {
        bucket.finish(&mut entries);
    }
    entries.into_iter().flatten()
}

impl Bucket {
    /// Merges the entry at an index; returns false for the first one, which stays.
    fn merge(&mut self, at: usize, entries: &mut [Option<Entry<'_>>]) -> bool {
        let Some(first) = self.first else {
            self.first = Some(at);
            return false;
        };
        let bucket = *self.at.get_or_insert(first);
        let Some(merged) = entries[at].take() else {
            return false;
        };
        if bucket == at {
            // The bucket is younger than merged entries. Kubernetes drops it in this case.
            self.at = None;
            self.sets.clear();
            return true;
        }
        self.sets.push(merged.fields().clone());
        if let Some(entry) = &mut entries[bucket] {
            entry.set_manager(ANCIENT);
            entry.set_time(merged.time().cloned());
        }
        true
    }

    fn finish(mut self, entries: &mut [Option<Entry<'_>>]) {
        let Some(Some(entry)) = self.at.map(|at| &mut entries[at]) else {
            return;
        };
        if !self.sets.is_empty() {
            self.sets.push(entry.fields().clone());
            entry.set_fields(join_all(self.sets));
        }
    }
}

fn is_ancient(entry: &Entry<'_>) -> bool {
    entry.manager == ANCIENT && entry.subresource.is_empty()
}
