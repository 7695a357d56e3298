//! Figures for metrics and health checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::key_ring::{KeyRing, RootKeyStatus};
use crate::key_storage::KeyStorage;
use crate::record::DataKeyRecord;
use crate::{EncryptedStore, Result};

/// The figures of an encrypted store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The transactions with sealed values.
    pub sealed_transactions: u64,
    /// The data keys that were destroyed with their tenants.
    pub destroyed_keys: u64,
    /// The data keys of deleted tenants that could not be destroyed yet.
    pub undestroyed_keys: u64,
    /// The values that were rewritten after a change of the configuration.
    pub rewritten_values: u64,
    /// The values that could not be rewritten when this was last tried.
    pub failed_rewrites: u64,
    /// Whether values are to be rewritten.
    pub rewrite_pending: bool,
    /// The rotations of root keys.
    pub rotations: u64,
    /// Whether data keys are wrapped with keys other than that of the first provider.
    pub rotation_pending: bool,
    /// The configurations that were put into use after the first.
    pub reloads: u64,
    /// The configurations that were refused.
    pub failed_reloads: u64,
    /// Whether the configuration file was refused when it was last read.
    pub reload_failed: bool,
}

/// The keys in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySummary {
    /// The root keys, and with them the provider keys that are still needed.
    pub root_keys: Vec<RootKeyStatus>,
    /// The data keys in use.
    pub active: usize,
    /// The data keys that were destroyed.
    pub destroyed: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    sealed: AtomicU64,
    destroyed: AtomicU64,
    rewritten: AtomicU64,
    failed_rewrites: AtomicU64,
    rewrite_pending: AtomicBool,
    rotations: AtomicU64,
    rotation_pending: AtomicBool,
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
    reload_failed: AtomicBool,
}

impl Counters {
    pub fn count_sealed(&self) {
        self.sealed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_destroyed(&self) {
        self.destroyed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_rewritten(&self, values: u64) {
        self.rewritten.fetch_add(values, Ordering::Relaxed);
    }

    pub fn set_failed_rewrites(&self, values: u64) {
        self.failed_rewrites.store(values, Ordering::Relaxed);
    }

    pub fn set_rewrite_pending(&self, pending: bool) {
        self.rewrite_pending.store(pending, Ordering::Relaxed);
    }

    pub fn count_rotation(&self) {
        self.rotations.fetch_add(1, Ordering::Relaxed);
    }

    pub fn set_rotation_pending(&self, pending: bool) {
        self.rotation_pending.store(pending, Ordering::Relaxed);
    }
}

impl EncryptedStore {
    /// Returns the figures.
    pub fn stats(&self) -> Stats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let counters = &self.counters;
        Stats {
            sealed_transactions: of(&counters.sealed),
            destroyed_keys: of(&counters.destroyed),
            undestroyed_keys: self.undestroyed_count(),
            rewritten_values: of(&counters.rewritten),
            failed_rewrites: of(&counters.failed_rewrites),
            rewrite_pending: is(&counters.rewrite_pending),
            rotations: of(&counters.rotations),
            rotation_pending: is(&counters.rotation_pending),
            reloads: of(&counters.reloads),
            failed_reloads: of(&counters.failed_reloads),
            reload_failed: is(&counters.reload_failed),
        }
    }

    /// Counts an attempt to put a changed configuration into use.
    pub fn count_reload(&self, succeeded: bool) {
        let counters = &self.counters;
        let count = match succeeded {
            true => &counters.reloads,
            false => &counters.failed_reloads,
        };
        count.fetch_add(1, Ordering::Relaxed);
        counters.reload_failed.store(!succeeded, Ordering::Relaxed);
    }
}

impl KeySummary {
    /// Summarizes the records of keys. It needs no provider.
    pub async fn read(storage: Arc<dyn KeyStorage>) -> Result<Self> {
        let ring = KeyRing::new(storage, Vec::new());
        let mut summary = Self {
            root_keys: ring.root_key_status().await?,
            active: 0,
            destroyed: 0,
        };
        for (_, record) in ring.data_keys().await? {
            match record {
                DataKeyRecord::Active { .. } => summary.active += 1,
                DataKeyRecord::Destroyed { .. } => summary.destroyed += 1,
            }
        }
        Ok(summary)
    }
}
