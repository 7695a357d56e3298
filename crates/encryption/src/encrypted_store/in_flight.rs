//! The data keys of commits that are under way.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::DataKeyId;

/// The data keys of commits that are under way, with the number of commits. A sweep spares them:
/// the tenant of such a key may not be in the store yet.
#[derive(Debug, Default)]
pub struct InFlight(Mutex<HashMap<DataKeyId, usize>>);

/// Registers the data keys of one commit until it is dropped.
#[derive(Debug)]
pub struct Registration<'a> {
    registry: &'a InFlight,
    ids: Vec<DataKeyId>,
}

impl InFlight {
    /// Registers the data keys of a commit. To be called before the keys are created.
    pub fn register(&self, ids: Vec<DataKeyId>) -> Registration<'_> {
        let mut counts = self.counts();
        for id in &ids {
            *counts.entry(id.clone()).or_default() += 1;
        }
        Registration {
            registry: self,
            ids,
        }
    }

    /// Whether a commit with the data key is under way.
    pub fn contains(&self, id: &DataKeyId) -> bool {
        self.counts().contains_key(id)
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<DataKeyId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut counts = self.registry.counts();
        for id in &self.ids {
            if let Some(count) = counts.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(id);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_in_flight_until_the_last_commit_with_it_ended() {
        let (all, id) = (InFlight::default(), DataKeyId::tenant("u").unwrap());
        let first = all.register(vec![id.clone()]);
        let second = all.register(vec![id.clone(), DataKeyId::system()]);
        drop(first);
        assert!(all.contains(&id) && all.contains(&DataKeyId::system()));
        drop(second);
        assert!(!all.contains(&id) && !all.contains(&DataKeyId::system()));
    }
}
