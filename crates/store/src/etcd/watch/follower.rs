//! The side of a watch that follows etcd.

use std::sync::Arc;
use std::time::Duration;

use insula_core::Revision;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tonic::Status;

use super::assembler::Assembler;
use crate::etcd::backoff::Backoff;
use crate::etcd::client::Client;
use crate::etcd::errors::message;
use crate::etcd::stream::Stream;
use crate::etcd::wire::etcdserverpb::WatchResponse;
use crate::etcd::wire::{self, Span, header_revision, number};
use crate::{Error, KeyRange, Result, WatchItem};

/// How often progress is requested until it arrives: etcd does not answer while it is catching up,
/// which it does in steps of 100 ms.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The timeout for opening a stream.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Follows etcd from `delivered` on, over as many streams as necessary.
pub(super) struct Follower {
    client: Arc<Client>,
    range: KeyRange,
    span: Span,
    /// Every change up to here has been delivered. The next stream begins here.
    delivered: Revision,
    /// The revision of the last item. Smaller than `delivered` while a watch waits for a revision
    /// that has not been reached.
    last_sent: Revision,
    /// The revision that a requested progress item must reach.
    requested: Option<Revision>,
    items: mpsc::Sender<Result<WatchItem>>,
    targets: watch::Receiver<Revision>,
    backoff: Backoff,
}

/// Why a stream ended.
enum End {
    /// The connection is lost; another one continues from here.
    Lost(String),
    /// The watch has failed.
    Failed(Error),
    /// The watcher was dropped.
    Dropped,
}

impl Follower {
    pub(super) fn new(
        client: Arc<Client>,
        range: KeyRange,
        after: Revision,
        items: mpsc::Sender<Result<WatchItem>>,
        targets: &watch::Sender<Revision>,
    ) -> Self {
        Self {
            client,
            // An empty range has no events, but it has progress.
            span: Span::of(&range).unwrap_or_else(Span::probe),
            range,
            delivered: after,
            last_sent: Revision::ZERO,
            requested: None,
            items,
            targets: targets.subscribe(),
            backoff: Backoff::new(),
        }
    }

    /// Follows until the watch fails or is dropped.
    pub(super) async fn run(mut self) {
        for nth in 0_usize.. {
            let end = match self.open(nth).await {
                Ok(stream) => self.follow(stream).await,
                Err(status) => Err(End::Lost(message(&status))),
            };
            match end {
                Ok(()) | Err(End::Dropped) => return,
                Err(End::Lost(reason)) => {
                    tracing::debug!(delivered = %self.delivered, reason, "watch stream lost");
                    sleep(self.backoff.next_delay()).await;
                }
                Err(End::Failed(error)) => {
                    // A dropped watcher does not need the error.
                    let _ = self.items.send(Err(error)).await;
                    return;
                }
            }
        }
    }

    /// Opens a stream that begins *with* the last delivered revision, not after it. etcd cancels a
    /// watch that begins before its floor, but accepts one that begins at the floor, although the
    /// deletions of that revision may be gone. So the previous revision is requested, and its
    /// events are dropped.
    async fn open(&self, nth: usize) -> Result<Stream, Status> {
        let start = number(self.delivered).max(1);
        let open = Stream::open(&self.client, nth, &self.span, start);
        let timed_out = |_| Status::unavailable("etcd did not open the stream in time");
        timeout(OPEN_TIMEOUT, open).await.map_err(timed_out)?
    }

    async fn follow(&mut self, mut stream: Stream) -> Result<(), End> {
        let mut assembler = Assembler::default();
        let mut progress_tick = interval(PROGRESS_INTERVAL);
        progress_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.answer_known_progress().await?;
            tokio::select! {
                response = stream.next() => {
                    let response = response.map_err(|status| End::Lost(message(&status)))?;
                    self.take(response, &mut assembler).await?;
                }
                requested = self.targets.changed() => {
                    requested.map_err(|_| End::Dropped)?;
                    self.requested = Some(*self.targets.borrow_and_update());
                    progress_tick.reset_immediately();
                }
                _ = progress_tick.tick(), if self.requested.is_some() => stream.request_progress(),
            }
        }
    }

    /// Progress that is already known need not be requested from etcd.
    async fn answer_known_progress(&mut self) -> Result<(), End> {
        match self.requested {
            Some(requested) if requested <= self.delivered => {
                self.requested = None;
                self.send(WatchItem::Progress(requested.max(self.last_sent)))
                    .await
            }
            _ => Ok(()),
        }
    }

    async fn take(
        &mut self,
        response: WatchResponse,
        assembler: &mut Assembler,
    ) -> Result<(), End> {
        if response.canceled {
            return Err(cancelled(response));
        }
        if response.created {
            self.backoff = Backoff::new();
            return Ok(());
        }
        if response.events.is_empty() {
            return self
                .progress(header_revision(response.header.as_ref()))
                .await;
        }
        for whole in assembler.take(response.events, response.fragment, &self.range) {
            let (revision, changes) = (whole.revision, whole.changes);
            if revision > self.delivered {
                self.send(WatchItem::Changes { revision, changes }).await?;
                self.delivered = revision;
            }
        }
        Ok(())
    }

    /// etcd reports that the watch is at `revision`. That is passed on if it is new, unless a later
    /// one was requested: the member is behind, and is asked again.
    async fn progress(&mut self, revision: Revision) -> Result<(), End> {
        if revision <= self.delivered {
            return Ok(());
        }
        self.delivered = revision;
        if self.requested.is_some_and(|requested| revision < requested) {
            return Ok(());
        }
        self.requested = None;
        self.send(WatchItem::Progress(revision)).await
    }

    async fn send(&mut self, item: WatchItem) -> Result<(), End> {
        let (WatchItem::Changes { revision, .. } | WatchItem::Progress(revision)) = &item;
        self.last_sent = *revision;
        self.items.send(Ok(item)).await.map_err(|_| End::Dropped)
    }
}

fn cancelled(response: WatchResponse) -> End {
    End::Failed(match response.compact_revision {
        0 => Error::Unavailable(response.cancel_reason),
        floor => Error::Compacted {
            floor: wire::revision(floor),
        },
    })
}
