//! What may end a watch although no event concerns it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use insula_cache::{Collection, Lost, SpaceState};
use tokio::sync::futures::Notified;

use super::events::Events;
use super::permission::Permission;
use crate::pipeline::trust::CurrentTrust;
use crate::registry::Registry;

/// The parts of the server that may end a watch.
pub(super) struct Sources {
    registry: Arc<Registry>,
    home: Arc<SpaceState>,
    impersonator_home: Option<Arc<SpaceState>>,
    trust: Arc<CurrentTrust>,
    definer: Option<Arc<SpaceState>>,
    collection: Arc<Collection>,
}

/// Changes of the sources.
///
/// The wait lasts across events: to begin, poll or end one takes the locks of its sources, which
/// all watches share. So it is polled only after one of the sources has woken it.
pub(super) struct Signals {
    sources: Arc<Sources>,
    /// Completes at the next change; `None` if there was one.
    wait: Option<BoxFuture<'static, ()>>,
    wakeup: Arc<Wakeup>,
    /// The waker of `wakeup`.
    waker: Waker,
}

/// Notes that a source has woken the wait, and passes it on to the task of the watch.
#[derive(Default)]
struct Wakeup {
    is_due: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl Sources {
    pub fn new(permission: &Permission, events: &Events) -> Arc<Self> {
        Arc::new(Self {
            registry: Arc::clone(&events.registry),
            home: Arc::clone(permission.home()),
            impersonator_home: permission.impersonator_home().cloned(),
            trust: Arc::clone(permission.trust()),
            definer: permission.definer().cloned(),
            collection: Arc::clone(&events.collection),
        })
    }

    /// Whether the space that is watched is gone, or the server stops.
    pub fn are_closed(&self) -> bool {
        let applied = self.registry.cache().applied();
        let lost = self.collection.after(applied);
        matches!(lost, Err(Lost::Closed)) || self.registry.closing().is_closed()
    }

    /// Waits for a change of rights, credentials or definitions, and for the end of the space or
    /// of the server. Changes count from the first poll on.
    async fn changed(self: Arc<Self>) {
        let impersonator = self.impersonator_home.as_ref();
        let definer = self.definer.as_ref();
        let (shutdown, closed) = (self.registry.closing().signal(), self.collection.closed());
        let (shutdown, closed) = (shutdown.notified(), closed.notified());
        let (rights, trust) = (
            self.home.changed().notified(),
            self.trust.changed().notified(),
        );
        let impersonator_rights = impersonator.map(|state| state.changed().notified());
        let definitions = definer.map(|state| state.changed().notified());
        tokio::select! {
            biased;
            () = shutdown => {}
            () = closed => {}
            () = rights => {}
            () = trust => {}
            () = optional(impersonator_rights) => {}
            () = optional(definitions) => {}
        }
    }
}

impl Signals {
    pub fn new(sources: &Arc<Sources>) -> Self {
        let wakeup = Arc::<Wakeup>::default();
        Self {
            sources: Arc::clone(sources),
            wait: None,
            waker: Arc::clone(&wakeup).into(),
            wakeup,
        }
    }

    /// Whether there was a change since the last call, or this is the first. Changes after this
    /// are not missed.
    pub fn take_changed(&mut self) -> bool {
        let mut changed = false;
        while self.poll_wait().is_ready() {
            changed = true;
            self.wait = Some(Box::pin(Arc::clone(&self.sources).changed()));
            self.wakeup.is_due.store(true, Ordering::Release);
        }
        changed
    }

    /// Is ready when there was a change since the last [`take_changed`](Self::take_changed).
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Before the wait is looked at, so that no change in between is missed.
        self.wakeup.task.register(context.waker());
        self.poll_wait()
    }

    fn poll_wait(&mut self) -> Poll<()> {
        let Some(wait) = &mut self.wait else {
            return Poll::Ready(());
        };
        let is_due = &self.wakeup.is_due;
        // Nearly always nothing is due, and a load does not take the line of memory from others.
        if !is_due.load(Ordering::Acquire) || !is_due.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let mut context = Context::from_waker(&self.waker);
        ready!(wait.as_mut().poll(&mut context));
        self.wait = None;
        Poll::Ready(())
    }
}

/// Waits for a signal, or for ever if there is none.
pub(super) async fn optional(signal: Option<Notified<'_>>) {
    match signal {
        Some(signal) => signal.await,
        None => std::future::pending().await,
    }
}
