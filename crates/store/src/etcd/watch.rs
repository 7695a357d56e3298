//! A watch: a task that follows etcd across lost connections, and the cursor that reads its items.

mod assembler;
mod follower;

use std::sync::Arc;

use async_trait::async_trait;
use insula_core::Revision;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::follower::Follower;
use super::client::Client;
use super::{floor, range};
use crate::{Error, KeyRange, Result, Watch, WatchItem};

/// The number of items fetched ahead. A watcher that falls further behind stops the stream, and
/// etcd keeps the rest until it is compacted.
const BUFFERED_ITEMS: usize = 16;

/// The watcher's side.
pub(super) struct Cursor {
    client: Arc<Client>,
    items: mpsc::Receiver<Result<WatchItem>>,
    /// The revision that the next progress item must reach.
    target: watch::Sender<Revision>,
    follower: JoinHandle<()>,
}

impl Cursor {
    /// Watches every change in `range` after `after`.
    pub(super) async fn open(
        client: Arc<Client>,
        range: KeyRange,
        after: Revision,
    ) -> Result<Self> {
        floor::check_floor(&client, after).await?;
        let (items, receiver) = mpsc::channel(BUFFERED_ITEMS);
        let target = watch::Sender::new(Revision::ZERO);
        let follower = Follower::new(Arc::clone(&client), range, after, items, &target);
        Ok(Self {
            client,
            items: receiver,
            target,
            follower: tokio::spawn(follower.run()),
        })
    }
}

#[async_trait]
impl Watch for Cursor {
    async fn next(&mut self) -> Result<WatchItem> {
        let ended = || Error::Unavailable("the watch is over".into());
        self.items.recv().await.ok_or_else(ended)?
    }

    /// etcd's own progress is only as new as the answering member, so the revision that it must
    /// reach is read first.
    async fn request_progress(&mut self) -> Result<()> {
        let current = range::revision(&self.client).await?;
        self.target.send_replace(current);
        Ok(())
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.follower.abort();
    }
}
