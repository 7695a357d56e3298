//! The floor: the oldest revision that etcd still keeps.

use std::time::Duration;

use insula_core::Revision;
use tokio::time::timeout;

use super::client::Client;
use super::errors::Failure;
use super::range;
use super::stream::Stream;
use super::wire::{self, Span, number, probe};
use crate::{Error, Result};

/// etcd processes a watch that begins in the past every 100 ms.
const FLOOR_TIMEOUT: Duration = Duration::from_secs(2);

/// Compacts the history before `floor`.
pub(super) async fn compact(client: &Client, floor: Revision) -> Result<()> {
    if floor == Revision::ZERO {
        return Ok(());
    }
    match client.compact(number(floor)).await {
        Err(Failure::Compacted) => Ok(()),
        done => resolve_failure(client, number(floor), done).await,
    }
}

/// Checks that the history after `after` is still kept.
pub(super) async fn check_floor(client: &Client, after: Revision) -> Result<()> {
    let start = number(after).max(1);
    match client.range(probe(start)).await {
        Ok(_) | Err(Failure::Future) => Ok(()),
        failed => resolve_failure(client, start, failed).await.map(drop),
    }
}

/// Turns an unreadable revision into an error with the nearest readable one.
pub(super) async fn resolve_failure<T>(
    client: &Client,
    revision: i64,
    read: Result<T, Failure>,
) -> Result<T> {
    match read {
        Ok(read) => Ok(read),
        Err(Failure::Compacted) => Err(Error::Compacted {
            floor: find_floor(client, revision).await,
        }),
        Err(Failure::Future) => Err(Error::Future {
            current: range::revision(client).await?,
        }),
        Err(failure) => Err(failure.of_read()),
    }
}

/// Finds the floor, which is known to be above `revision`.
///
/// etcd rejects a read below its floor without naming the floor; but it cancels a watch from below
/// with it. If that does not arrive in time, the floor is at least the next revision, and that is
/// returned.
async fn find_floor(client: &Client, revision: i64) -> Revision {
    let floor = timeout(FLOOR_TIMEOUT, read_floor(client, revision)).await;
    floor
        .ok()
        .flatten()
        .unwrap_or_else(|| wire::revision(revision).next())
}

async fn read_floor(client: &Client, revision: i64) -> Option<Revision> {
    let mut stream = Stream::open(client, 0, &Span::probe(), revision)
        .await
        .ok()?;
    loop {
        let response = stream.next().await.ok()?;
        if response.compact_revision != 0 {
            return Some(wire::revision(response.compact_revision));
        }
    }
}
