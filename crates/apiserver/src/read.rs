//! Reading: one object, many, and as they change.

mod get;
mod list;
mod past;
mod select;
mod watch;

use std::time::Duration;

use insula_core::Revision;

pub use get::get;
pub use list::{Listing, collect, list};
pub use select::Selection;
pub use watch::watch;

use crate::registry::Registry;
use crate::request::query::{self, Query};
use crate::status::{Result, StatusError};

/// How often a look at all spaces is tried before the store is asked instead, which can
/// show all of them as of one revision.
const PANORAMAS: usize = 4;

/// How long a reader waits for a revision that has not happened yet.
const PATIENCE: Duration = Duration::from_secs(3);

/// Waits for the revision that a read names, before the read takes what others wait for.
pub async fn await_named(registry: &Registry, query: &Query) -> Result<()> {
    let named = query.get("resourceVersion").map(query::revision);
    match named {
        Some(Ok(revision)) => not_older(registry, revision).await,
        // What is wrong is told by the read itself.
        Some(Err(_)) | None => Ok(()),
    }
}

/// Waits until the cache is not older than `revision`.
async fn not_older(registry: &Registry, revision: Revision) -> Result<()> {
    let cache = registry.cache();
    let reached = tokio::time::timeout(PATIENCE, cache.await_applied(revision)).await;
    reached.map_err(|_| StatusError::future(revision, cache.applied()))
}
