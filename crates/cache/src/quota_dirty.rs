//! Quotas with a recorded usage that may be stale, by namespace.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use insula_core::Space;
use tokio::sync::Notify;

/// A namespace with ResourceQuotas, or a whole space with a tenant quota.
pub type Place = (Space, Option<Box<str>>);

/// Places with a change since the quota controller last counted them. There are never more of
/// them than places with quotas.
#[derive(Debug, Default)]
pub struct DirtyQuotas {
    /// Whether the controller has been handed the place.
    places: Mutex<HashMap<Place, bool>>,
    changed: Notify,
}

impl DirtyQuotas {
    /// Notes a change.
    pub fn note(&self, place: Place) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = places.insert(place, false).is_none_or(|told| told);
        drop(places);
        if is_new {
            self.changed.notify_waiters();
        }
    }

    /// Returns the places that were noted since the last call.
    pub fn drain_new(&self) -> Vec<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let new = places.iter_mut().filter(|(_, told)| !**told);
        let new = new.map(|(place, told)| {
            *told = true;
            place.clone()
        });
        new.collect()
    }

    /// Clears the place, because it is counted now. Returns whether it was noted.
    pub fn take(&self, place: &Place) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.remove(place).is_some()
    }

    /// Notified when a place is noted.
    pub const fn changed(&self) -> &Notify {
        &self.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_handed_out_once_and_taken_once() {
        let place = (Space::System, Some("a".into()));
        let dirty_quotas = DirtyQuotas::default();
        assert!(!dirty_quotas.take(&place));
        dirty_quotas.note(place.clone());
        dirty_quotas.note(place.clone());
        assert_eq!(dirty_quotas.drain_new(), std::slice::from_ref(&place));
        assert!(dirty_quotas.drain_new().is_empty());
        dirty_quotas.note(place.clone());
        assert_eq!(dirty_quotas.drain_new(), std::slice::from_ref(&place));
        assert!(dirty_quotas.take(&place));
        assert!(!dirty_quotas.take(&place));
    }
}
