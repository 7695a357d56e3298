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

/// How often progress is asked for until it comes: etcd does not answer while it is still
/// catching up, and then does so in steps of 100 ms.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How long a member may take to open a stream.
const OPEN: Duration = Duration::from_secs(5);

/// Follows etcd from `told` on, over as many streams as it takes.
pub(super) struct Follower {
    client: Arc<Client>,
    range: KeyRange,
    span: Span,
    /// Every change up to here has been told. This is where the next stream begins.
    told: Revision,
    /// The last revision that an item named. Less than `told` while a watch waits for a
    /// revision that has not happened yet.
    named: Revision,
    /// The revision that a progress item must reach, while one is asked for.
    asked: Option<Revision>,
    items: mpsc::Sender<Result<WatchItem>>,
    targets: watch::Receiver<Revision>,
    backoff: Backoff,
}

/// Why a stream is no longer followed.
enum End {
    /// The connection is gone; another one goes on from here.
    Lost(String),
    /// There is no way on.
    Over(Error),
    /// Nobody listens any more.
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
            // Of a range that can hold nothing, no event passes; its progress is told.
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

    /// Follows until the watch is over or nobody listens.
    pub(super) async fn run(mut self) {
        for nth in 0_usize.. {
            let end = match self.open(nth).await {
                Ok(stream) => self.follow(stream).await,
                Err(status) => Err(End::Lost(told(&status))),
            };
            match end {
                Ok(()) | Err(End::Dropped) => return,
                Err(End::Lost(reason)) => {
                    tracing::debug!(told = %self.told, reason, "watch lost its stream");
                    sleep(self.backoff.wait()).await;
                }
                Err(End::Over(error)) => {
                    // If nobody listens, nobody needs to know.
                    let _ = self.items.send(Err(error)).await;
                    return;
                }
            }
        }
    }

    /// Opens a stream that begins *with* the last revision told, not after it. etcd
    /// cancels a watch that begins before its floor; beginning at the floor it lets pass,
    /// although the deletions of that revision may be gone. So the one before it is asked
    /// for, and what comes of it is left out.
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

    /// A question whose answer is already known need not go to etcd.
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

    /// etcd says that the watch is as far as `revision`. That is told if it is news, but
    /// not to someone who waits for a later one: the member is behind, and asked again.
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
