//! Reads a range in pages of one revision.

use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::time::Instant;

use super::client::{Client, PAGE_BYTES};
use super::errors::Failure;
use super::floor::resolve_failure;
use super::wire::etcdserverpb::{RangeRequest, RangeResponse};
use super::wire::{Span, header_revision, number, probe};
use crate::{At, Entry, Error, KeyRange, Page, Result, Revision};

/// The size of the first page, while the size of entries is unknown.
const FIRST_PAGE: usize = 500;
/// The largest number of entries in a page. Large, because etcd counts the rest of the range for
/// each page.
const MAX_PAGE: usize = 10_000;
/// How long a read of the newest state is retried while compaction overtakes it.
const LATEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The store's revision, not older than any earlier answer.
pub(super) async fn revision(client: &Client) -> Result<Revision> {
    let answer = client.range(probe(0)).await.map_err(Failure::of_read)?;
    Ok(header_revision(answer.header.as_ref()))
}

/// The entries of `range` at `at`.
pub(super) async fn range(
    client: &Client,
    range: &KeyRange,
    at: At,
    limit: Option<NonZeroUsize>,
) -> Result<Page> {
    let limit = limit.map_or(usize::MAX, NonZeroUsize::get);
    match at {
        At::Revision(revision) => {
            let pinned = pinned(client, revision).await?;
            let read = read(client, range, pinned, limit).await;
            let page = resolve_failure(client, pinned, read).await?;
            Ok(Page { revision, ..page })
        }
        At::Latest => latest(client, range, limit).await,
    }
}

/// The revision as it is sent to etcd, where zero means the newest state. Its first revision is
/// one, and the store is still empty there.
async fn pinned(client: &Client, revision: Revision) -> Result<i64> {
    match number(revision) {
        i64::MAX => Err(Error::Future {
            current: self::revision(client).await?,
        }),
        number => Ok(number.max(1)),
    }
}

/// Reads the newest state. If it is compacted between two pages, starts again.
async fn latest(client: &Client, range: &KeyRange, limit: usize) -> Result<Page> {
    let deadline = Instant::now() + LATEST_TIMEOUT;
    loop {
        match read(client, range, 0, limit).await {
            Err(Failure::Compacted) if Instant::now() < deadline => {}
            Err(failure) => return Err(failure.of_read()),
            Ok(page) => return Ok(page),
        }
    }
}

/// Reads up to `limit` entries at a revision, or of the newest state if that is zero.
async fn read(
    client: &Client,
    range: &KeyRange,
    revision: i64,
    limit: usize,
) -> Result<Page, Failure> {
    let Some(mut span) = Span::of(range) else {
        return empty_page(client, revision).await;
    };
    let mut entries: Vec<Entry> = Vec::new();
    let mut pinned = revision;
    let mut size = FIRST_PAGE;
    loop {
        let wanted = size.min(limit - entries.len());
        let answer = match request_page(client, &span, pinned, wanted).await {
            Err(Failure::Oversized) if wanted > 1 => {
                size = wanted / 4 + 1;
                continue;
            }
            answer => answer?,
        };
        if pinned == 0 {
            pinned = number(header_revision(answer.header.as_ref()));
        }
        size = next_size(&answer).unwrap_or(size);
        let more = answer.more;
        entries.extend(answer.kvs.into_iter().map(Entry::from));
        match entries.last() {
            Some(last) if more && entries.len() < limit => {
                match Span::of(&range.after(&last.key)) {
                    Some(rest) => span = rest,
                    None => return Ok(page(entries, pinned, false)),
                }
            }
            _ => return Ok(page(entries, pinned, more)),
        }
    }
}

/// An empty range: only the revision has to be read.
async fn empty_page(client: &Client, revision: i64) -> Result<Page, Failure> {
    let answer = client.range(probe(revision)).await?;
    let current = number(header_revision(answer.header.as_ref()));
    let pinned = if revision == 0 { current } else { revision };
    Ok(page(Vec::new(), pinned, false))
}

fn page(entries: Vec<Entry>, revision: i64, more: bool) -> Page {
    Page {
        entries,
        revision: super::wire::revision(revision),
        more,
    }
}

async fn request_page(
    client: &Client,
    span: &Span,
    revision: i64,
    limit: usize,
) -> Result<RangeResponse, Failure> {
    let request = RangeRequest {
        key: span.key.clone(),
        range_end: span.range_end.clone(),
        limit: i64::try_from(limit).unwrap_or(i64::MAX),
        revision,
        count_only: false,
    };
    client.range(request).await
}

/// The number of entries that fill a quarter of the largest page, if the rest is like these.
fn next_size(answer: &RangeResponse) -> Option<usize> {
    let bytes = |entry: &super::wire::mvccpb::KeyValue| entry.key.len() + entry.value.len();
    let total: usize = answer.kvs.iter().map(bytes).sum();
    let mean = total.checked_div(answer.kvs.len())?.max(1);
    Some((PAGE_BYTES / 4 / mean).clamp(1, MAX_PAGE))
}
