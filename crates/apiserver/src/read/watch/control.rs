//! The end of a watch that its client does not read.
//!
//! A watch notices its own end when it is asked for events, and it is asked only when the client
//! reads. So the transport waits for the end beside it.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use insula_cache::Stored;
use insula_core::Revision;
use tokio::time::Instant;

use super::permission::Permission;
use super::signals::{Signals, Sources};
use crate::codec::body::WatchControl;

/// What ends a watch, shared by the watch and the transport.
pub(super) struct Control {
    permission: Permission,
    sources: Arc<Sources>,
    deadline: Instant,
    /// The objects of the initial state that are yet to be sent.
    initial: AtomicUsize,
}

impl Control {
    pub fn new(permission: &Permission, sources: &Arc<Sources>, deadline: Instant) -> Arc<Self> {
        Arc::new(Self {
            permission: permission.clone(),
            sources: Arc::clone(sources),
            deadline,
            initial: AtomicUsize::new(0),
        })
    }

    /// Notes how many objects of the initial state are yet to be sent.
    pub fn set_initial(&self, objects: usize) {
        self.initial.store(objects, Ordering::Relaxed);
    }

    async fn over(self: Arc<Self>) {
        let mut permission = self.permission.clone();
        let mut signals = Signals::new(&self.sources);
        loop {
            // Before rights are checked, so that no change in between is missed.
            signals.take_changed();
            let ends = permission.check(Revision::ZERO).is_err()
                || permission.is_redefined()
                || self.sources.are_closed();
            if ends || Instant::now() >= self.deadline {
                return;
            }
            tokio::select! {
                () = poll_fn(|context| signals.poll_changed(context)) => {}
                () = tokio::time::sleep_until(self.deadline) => {}
            }
        }
    }
}

/// The transport holds the control, which must not hold the watch.
pub(super) struct Handle(pub Arc<Control>);

impl WatchControl for Handle {
    fn is_over(&self) -> BoxFuture<'static, ()> {
        Box::pin(Arc::clone(&self.0).over())
    }

    fn held_bytes(&self) -> usize {
        self.0.initial.load(Ordering::Relaxed) * size_of::<Arc<Stored>>()
    }
}
