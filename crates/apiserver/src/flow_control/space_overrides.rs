//! What few spaces set for themselves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use insula_core::Space;

/// Values of the spaces that have one. The others have no entry.
#[derive(Debug)]
pub struct SpaceOverrides<T> {
    values: RwLock<HashMap<Space, T>>,
    is_used: AtomicBool,
}

impl<T> Default for SpaceOverrides<T> {
    fn default() -> Self {
        Self {
            values: RwLock::default(),
            is_used: AtomicBool::new(false),
        }
    }
}

impl<T: Copy> SpaceOverrides<T> {
    /// Returns the value of a space, if it has one.
    pub fn get(&self, space: &Space) -> Option<T> {
        // Usually no space has any, and then no lock is taken.
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.get(space).copied()
    }

    /// Sets or removes the value of a space.
    pub fn set(&self, space: &Space, value: Option<T>) {
        if value.is_none() && !self.is_used.load(Ordering::Acquire) {
            return;
        }
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => values.insert(space.clone(), value),
            None => values.remove(space),
        };
        self.is_used.store(!values.is_empty(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_their_space_and_removed_ones_leave_nothing() {
        let overrides = SpaceOverrides::default();
        let [one, other] = ["t1", "t2"].map(|name| Space::parse(name).unwrap());
        overrides.set(&one, None);
        overrides.set(&one, Some(7));
        assert_eq!(
            (overrides.get(&one), overrides.get(&other)),
            (Some(7), None)
        );
        overrides.set(&one, None);
        assert_eq!(overrides.get(&one), None);
        assert!(!overrides.is_used.load(Ordering::Acquire));
    }
}
