//! Reads: get, list and watch.

mod get;
mod history;
mod list;
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

/// How long a read waits for a revision that was not applied yet.
const REVISION_TIMEOUT: Duration = Duration::from_secs(3);

/// Waits for the revision that a read names, before the read acquires a seat for heavy work.
pub async fn await_requested_revision(registry: &Registry, query: &Query) -> Result<()> {
    let named = query.get("resourceVersion").map(query::revision);
    match named {
        Some(Ok(revision)) => not_older(registry, revision).await,
        // The read itself reports an invalid revision.
        Some(Err(_)) | None => Ok(()),
    }
}

/// Waits until the cache has applied `revision`.
async fn not_older(registry: &Registry, revision: Revision) -> Result<()> {
    let cache = registry.cache();
    let reached = tokio::time::timeout(REVISION_TIMEOUT, cache.await_applied(revision)).await;
    reached.map_err(|_| StatusError::future(revision, cache.applied()))
}
