//! The share of the disk that the history of a tenant may take.
//!
//! The store keeps every version of an object for some minutes, and no quota counts them: a tenant
//! that rewrites a few large objects fills a disk. So a tenant may have as much history as there is
//! room left beside it. A tenant alone can use half of the room, several ones leave the same share
//! to each other, and there is always room for those that change little.

use insula_cache::Stored;
use insula_store::DiskSpace;

use super::QuotaWrite;
use crate::status::{Result, StatusError};

/// The history that a tenant may have on every disk.
const MIN_HISTORY_BYTES: u64 = 4 << 20;
/// How often the store has a version: in its log and in a table.
const COPIES: u64 = 2;

/// Checks that a write may add to the history of its tenant. The server's own writes may, and
/// changes of objects that are being deleted: a tenant needs them to work and to make room.
pub(super) fn check(write: &QuotaWrite<'_>) -> Result<()> {
    let is_deletion = || write.old.is_some_and(Stored::is_terminating);
    if write.caller.is_none() || write.address.space.is_system() {
        return Ok(());
    }
    let Some(state) = write.registry.cache().space_state(&write.address.space) else {
        return Ok(());
    };
    let bytes = state.superseded_bytes();
    let fits = || match write.registry.store().disk_space() {
        Some(space) => fits(bytes, space),
        // etcd has a quota of its own.
        None => true,
    };
    match bytes <= MIN_HISTORY_BYTES || fits() || is_deletion() {
        true => Ok(()),
        false => Err(too_much_history()),
    }
}

/// The client may retry when some of the history is removed. Sizes are not told: tenants share the
/// disk.
fn too_much_history() -> StatusError {
    let message = "the disk of the server is short of room, and recent changes of this tenant take \
                   more of it than is left: their history is kept for five minutes; try again \
                   later, change large objects less often, or ask the administrator of the server \
                   for more disk space";
    StatusError::too_many(message).retry_after(10)
}

/// Tells whether history of so many bytes leaves as much room as it takes.
fn fits(bytes: u64, space: DiskSpace) -> bool {
    let room = space.free_bytes.saturating_sub(space.reserved_bytes);
    bytes.saturating_mul(COPIES) <= room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_takes_no_more_than_it_leaves() {
        let space = |free_bytes| DiskSpace {
            free_bytes,
            reserved_bytes: 100,
            refused_writes: 0,
            is_low: free_bytes < 100,
        };
        for (bytes, free, expected) in [
            (50, 200, true),
            (51, 200, false),
            (1, 100, false),
            (0, 99, true),
            (u64::MAX, u64::MAX, false),
        ] {
            assert_eq!(fits(bytes, space(free)), expected, "{bytes} of {free}");
        }
    }
}
