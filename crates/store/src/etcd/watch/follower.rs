//! The side of a watch that follows etcd.

use std::sync::Arc;
use std::time::Duration;

use insula_core::Revision;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tonic::Status;

use super::assembly::Assembly;
use crate::etcd::backoff::Backoff;
use crate::etcd::client::Client;
use crate::etcd::errors::told;
use crate::etcd::stream::Stream;
use crate::etcd::wire::etcdserverpb::WatchResponse;
use crate::etcd::wire::{self, Span, headed, number};
use crate::{Error, KeyRange, Result, WatchItem};

/// How often progress is requested until it arrives: etcd does not answer while it is catching up,
/// which it does in steps of 100 ms.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The timeout for opening a stream.
const OPEN: Duration = Duration::from_secs(5);

/// Follows etcd from `delivered` on, over as many streams as necessary.
pub(super) struct Follower {
    client: Arc<Client>,
    range: KeyRange,
    span: Span,
    /// Every change up to here has been delivered. The next stream begins here.
    told: Revision,
    /// The revision of the last item. Smaller than `delivered` while a watch waits for a revision
    /// that has not been reached.
    named: Revision,
    /// The revision that a requested progress item must reach.
    asked: Option<Revision>,
    items: mpsc::Sender<Result<WatchItem>>,
    targets: watch::Receiver<Revision>,
    backoff: Backoff,
}

/// Why a stream ended.
enum End {
    /// The connection is lost; another one continues from here.
    Lost(String),
    /// The watch has failed.
    Over(Error),
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
            span: Span::of(&range).unwrap_or_else(Span::nothing),
            range,
            told: after,
            named: Revision::ZERO,
            asked: None,
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
                Err(status) => Err(End::Lost(told(&status))),
            };
            match end {
                Ok(()) | Err(End::Dropped) => return,
                Err(End::Lost(reason)) => {
                    tracing::debug!(delivered = %self.delivered, reason, "watch stream lost");
                    sleep(self.backoff.wait()).await;
                }
                Err(End::Over(error)) => {
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
        let start = number(self.told).max(1);
        let open = Stream::open(&self.client, nth, &self.span, start);
        let late = |_| Status::unavailable("etcd did not open the stream in time");
        timeout(OPEN, open).await.map_err(late)?
    }

    async fn follow(&mut self, mut stream: Stream) -> Result<(), End> {
        let mut assembly = Assembly::default();
        let mut again = interval(ASK_AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.answer_at_once().await?;
            tokio::select! {
                response = stream.next() => {
                    let response = response.map_err(|status| End::Lost(told(&status)))?;
                    self.take(response, &mut assembly).await?;
                }
                asked = self.targets.changed() => {
                    asked.map_err(|_| End::Dropped)?;
                    self.asked = Some(*self.targets.borrow_and_update());
                    again.reset_immediately();
                }
                _ = again.tick(), if self.asked.is_some() => stream.ask(),
            }
        }
    }

    /// Progress that is already known need not be requested from etcd.
    async fn answer_at_once(&mut self) -> Result<(), End> {
        match self.asked {
            Some(asked) if asked <= self.told => {
                self.asked = None;
                self.tell(WatchItem::Progress(asked.max(self.named))).await
            }
            _ => Ok(()),
        }
    }

    async fn take(&mut self, response: WatchResponse, assembly: &mut Assembly) -> Result<(), End> {
        if response.canceled {
            return Err(cancelled(response));
        }
        if response.created {
            self.backoff = Backoff::new();
            return Ok(());
        }
        if response.events.is_empty() {
            return self.progress(headed(response.header.as_ref())).await;
        }
        for whole in assembly.take(response.events, response.fragment, &self.range) {
            let (revision, changes) = (whole.revision, whole.changes);
            if revision > self.told {
                self.tell(WatchItem::Changes { revision, changes }).await?;
                self.told = revision;
            }
        }
        Ok(())
    }

    /// etcd reports that the watch is at `revision`. That is passed on if it is new, unless a later
    /// one was requested: the member is behind, and is asked again.
    async fn progress(&mut self, revision: Revision) -> Result<(), End> {
        if revision <= self.told {
            return Ok(());
        }
        self.told = revision;
        if self.asked.is_some_and(|asked| revision < asked) {
            return Ok(());
        }
        self.asked = None;
        self.tell(WatchItem::Progress(revision)).await
    }

    async fn tell(&mut self, item: WatchItem) -> Result<(), End> {
        let (WatchItem::Changes { revision, .. } | WatchItem::Progress(revision)) = &item;
        self.named = *revision;
        self.items.send(Ok(item)).await.map_err(|_| End::Dropped)
    }
}

fn cancelled(response: WatchResponse) -> End {
    End::Over(match response.compact_revision {
        0 => Error::Unavailable(response.cancel_reason),
        floor => Error::Compacted {
            floor: wire::revision(floor),
        },
    })
}
