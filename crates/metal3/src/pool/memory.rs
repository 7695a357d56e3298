//! The memory that hosts take. API servers that tenants choose may list any number of hosts of any
//! size, so each owner of pools has a limit.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use insula_identity::credential::Source;
use insula_identity::session::Key;

use crate::kinds::host::BareMetalHost;

/// The most memory of the hosts in all pools of an owner, in bytes.
const MAX_OWNED: usize = 256 << 20;
/// The estimated memory of an object in the fields of a host, in bytes.
const OBJECT_COST: usize = 256;
/// The estimated memory of an item or of a field, in bytes.
const ITEM_COST: usize = 32;

/// The owner of pools: a tenant's space, or a namespace of the operator's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Space(Arc<str>),
    Namespace(String),
}

impl Owner {
    pub(super) fn of(key: &Key) -> Self {
        match (&key.space, &key.source) {
            (Some(space), _) => Self::Space(Arc::clone(space)),
            (None, Source::Secret { namespace, .. }) => Self::Namespace(namespace.clone()),
            (None, _) => Self::Namespace(key.scope.clone().unwrap_or_default()),
        }
    }
}

/// The memory that owners use.
#[derive(Debug, Default)]
pub struct HostMemory(Mutex<HashMap<Owner, usize>>);

impl HostMemory {
    /// Changes what an owner uses, unless that would be too much. Returns whether it was changed.
    fn change(&self, owner: &Owner, less: usize, more: usize) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = used.get(owner).copied().unwrap_or_default();
        let after = before.saturating_sub(less) + more;
        if after > MAX_OWNED && after > before {
            return false;
        }
        match after {
            0 => used.remove(owner),
            _ => used.insert(owner.clone(), after),
        };
        true
    }
}

/// The memory of one pool.
#[derive(Debug)]
pub(super) struct PoolMemory {
    of_all: Arc<HostMemory>,
    owner: Owner,
    used: usize,
}

impl PoolMemory {
    pub(super) fn new(of_all: Arc<HostMemory>, owner: Owner) -> Self {
        Self {
            of_all,
            owner,
            used: 0,
        }
    }

    /// Uses some memory instead of other. Returns whether that is possible.
    pub(super) fn replace(&mut self, less: usize, more: usize) -> bool {
        let is_changed = self.of_all.change(&self.owner, less, more);
        if is_changed {
            self.used = self.used.saturating_sub(less) + more;
        }
        is_changed
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        self.of_all.change(&self.owner, self.used, 0);
    }
}

/// Returns the estimated memory of a host.
pub(super) fn estimate(host: &BareMetalHost) -> usize {
    let mut size = Size(std::mem::size_of::<BareMetalHost>());
    match serde_json::to_writer(&mut size, host) {
        Ok(()) => size.0,
        // All hosts can be serialized.
        Err(_) => MAX_OWNED,
    }
}

/// Estimates the memory of what is written.
struct Size(usize);

impl Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 += match byte {
                b'{' => OBJECT_COST,
                b'[' | b',' => ITEM_COST,
                _ => 1,
            };
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
