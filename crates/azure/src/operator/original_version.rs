//! The versions in which users wrote objects, so that an object that only the operator has written
//! since is read once and not in two versions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The version of each object, in memory only.
#[derive(Debug, Default)]
pub(super) struct OriginalVersions(Mutex<HashMap<Arc<str>, Original>>);

/// The version in which a user wrote an object, at one of its resource versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Original {
    pub version: String,
    pub resource_version: String,
}

impl OriginalVersions {
    /// Returns what is known about an object.
    pub(super) fn find(&self, key: &str) -> Option<Original> {
        self.all().get(key).cloned()
    }

    /// Records the version of an object that was read or written.
    pub(super) fn record(&self, key: &Arc<str>, version: &str, resource_version: Option<String>) {
        let original = Original {
            version: version.to_owned(),
            resource_version: resource_version.unwrap_or_default(),
        };
        self.all().insert(Arc::clone(key), original);
    }

    /// Forgets an object.
    pub(super) fn forget(&self, key: &str) {
        self.all().remove(key);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, Original>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
