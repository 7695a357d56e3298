//! Where something changed that is limited, for who says how much there is.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use insula_core::Space;
use tokio::sync::Notify;

/// A namespace of a space that has quotas; or a whole space that has one.
pub type Place = (Space, Option<Box<str>>);

/// Places where something changed that has not been looked at. There are never more of them
/// than there are places with quotas.
#[derive(Debug, Default)]
pub struct DirtyQuotas {
    /// Whether somebody was told.
    places: Mutex<HashMap<Place, bool>>,
    changed: Notify,
}

impl DirtyQuotas {
    /// Something changed there.
    pub fn note(&self, place: Place) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = places.insert(place, false).is_none_or(|told| told);
        drop(places);
        if is_new {
            self.changed.notify_waiters();
        }
    }

    /// The places that were noted since the last call.
    pub fn tell(&self) -> Vec<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let new = places.iter_mut().filter(|(_, told)| !**told);
        let new = new.map(|(place, told)| {
            *told = true;
            place.clone()
        });
        new.collect()
    }

    /// Whoever looks at the place now sees what was noted: says whether anything was.
    pub fn take(&self, place: &Place) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.remove(place).is_some()
    }

    /// Is notified when there is something to tell.
    pub const fn changed(&self) -> &Notify {
        &self.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_once_and_taken_once() {
        let place = (Space::System, Some("a".into()));
        let dirty_quotas = DirtyQuotas::default();
        assert!(!dirty_quotas.take(&place));
        dirty_quotas.note(place.clone());
        dirty_quotas.note(place.clone());
        assert_eq!(dirty_quotas.tell(), std::slice::from_ref(&place));
        assert!(dirty_quotas.tell().is_empty());
        dirty_quotas.note(place.clone());
        assert_eq!(dirty_quotas.tell(), std::slice::from_ref(&place));
        assert!(dirty_quotas.take(&place));
        assert!(!dirty_quotas.take(&place));
    }
}
