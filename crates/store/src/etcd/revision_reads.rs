//! Concurrent reads of the store's revision share one request.
//!
//! A consistent read of the cache needs the newest revision first. A reader must not take the
//! answer to a request that was sent before the reader came: a write may have been acknowledged in
//! between. So it waits for the next request, which all that came meanwhile share.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use insula_core::Revision;
use tokio::sync::oneshot;

use crate::{Error, Result};

/// The readers of the revision.
#[derive(Debug, Default)]
pub(super) struct RevisionReads {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Whether a request is on its way.
    is_reading: bool,
    /// Those that share the next one.
    waiting: Vec<oneshot::Sender<Result<Revision>>>,
}

impl RevisionReads {
    /// Returns the answer to a request that is sent after this call.
    pub(super) async fn read<F>(
        self: &Arc<Self>,
        request: impl Fn() -> F + Send + 'static,
    ) -> Result<Revision>
    where
        F: Future<Output = Result<Revision>> + Send,
    {
        let (sender, answer) = oneshot::channel();
        if self.join(sender) {
            // A task of its own: the reader that came first may be dropped, the others wait on.
            let reads = Arc::clone(self);
            tokio::spawn(async move {
                while let Some(readers) = reads.next_readers() {
                    let answer = request().await;
                    for reader in readers {
                        reader.send(answer.clone()).ok();
                    }
                }
            });
        }
        let stopped = |_| Error::Unavailable("the server stops".into());
        answer.await.map_err(stopped)?
    }

    /// Queues a reader. Returns whether the caller has to send requests.
    fn join(&self, reader: oneshot::Sender<Result<Revision>>) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.push(reader);
        !std::mem::replace(&mut queue.is_reading, true)
    }

    /// Returns the readers that share the next request; `None` if there are none.
    fn next_readers(&self) -> Option<Vec<oneshot::Sender<Result<Revision>>>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.is_reading = !queue.waiting.is_empty();
        queue.is_reading.then(|| std::mem::take(&mut queue.waiting))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    type Answer = Pin<Box<dyn Future<Output = Result<Revision>> + Send>>;

    /// A store that answers when it is allowed to, with the revision at that moment.
    #[derive(Default)]
    struct Answers {
        sent: AtomicU64,
        revision: AtomicU64,
        allowed: Option<Semaphore>,
    }

    impl Answers {
        fn held() -> Arc<Self> {
            Arc::new(Self {
                allowed: Some(Semaphore::new(0)),
                ..Self::default()
            })
        }

        fn allow(&self) {
            self.allowed.as_ref().unwrap().add_permits(1);
        }

        fn request(self: &Arc<Self>) -> impl Fn() -> Answer + Send + 'static {
            let answers = Arc::clone(self);
            move || {
                let answers = Arc::clone(&answers);
                Box::pin(async move {
                    answers.sent.fetch_add(1, Ordering::SeqCst);
                    let revision = answers.revision.load(Ordering::SeqCst);
                    if let Some(allowed) = &answers.allowed {
                        allowed.acquire().await.unwrap().forget();
                    }
                    Ok(Revision::new(revision))
                })
            }
        }
    }

    async fn settle() {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn readers_share_a_request_that_is_sent_after_they_came() {
        let (reads, answers) = (Arc::new(RevisionReads::default()), Answers::held());
        let read = || {
            let (reads, request) = (Arc::clone(&reads), answers.request());
            tokio::spawn(async move { reads.read(request).await })
        };
        let first = read();
        settle().await;
        // A write between the first request and the other readers.
        answers.revision.store(7, Ordering::SeqCst);
        let others: Vec<_> = (0..32).map(|_| read()).collect();
        settle().await;
        assert_eq!(answers.sent.load(Ordering::SeqCst), 1);
        answers.allow();
        answers.allow();
        assert_eq!(first.await.unwrap(), Ok(Revision::ZERO));
        for other in others {
            assert_eq!(other.await.unwrap(), Ok(Revision::new(7)));
        }
        assert_eq!(answers.sent.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn reader_that_is_dropped_does_not_stop_others() {
        let (reads, answers) = (Arc::new(RevisionReads::default()), Answers::held());
        let first = {
            let (reads, request) = (Arc::clone(&reads), answers.request());
            tokio::spawn(async move { reads.read(request).await })
        };
        settle().await;
        first.abort();
        let second = {
            let (reads, request) = (Arc::clone(&reads), answers.request());
            tokio::spawn(async move { reads.read(request).await })
        };
        settle().await;
        answers.allow();
        answers.allow();
        assert_eq!(second.await.unwrap(), Ok(Revision::ZERO));
    }

    #[tokio::test]
    async fn failure_is_told_to_all_and_the_next_reader_asks_again() {
        let reads = Arc::new(RevisionReads::default());
        let failing = || async { Err(Error::Unavailable("no member answers".into())) };
        let (one, other) = tokio::join!(reads.read(failing), reads.read(failing));
        let failed = Err(Error::Unavailable("no member answers".into()));
        assert_eq!((one, other), (failed.clone(), failed));
        let request = Arc::new(Answers::default()).request();
        assert_eq!(reads.read(request).await, Ok(Revision::ZERO));
    }
}
