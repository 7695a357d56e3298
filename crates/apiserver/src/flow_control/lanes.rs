//! Lanes: which threads a connection and its requests run on.
//!
//! A runtime does not preempt its tasks and runs them in the order in which they became ready. On
//! one runtime, a request of a quiet space waits for every request of a busy one that is ready
//! before it. So there are several, and the operating system decides between their threads by
//! priority, in the middle of a task if need be:
//!
//! - *interactive*: the runtime of the server itself, where connections of most spaces run.
//! - *controllers*: the built-in controllers, which work for all spaces.
//! - *bulk*: connections of spaces that used more CPU time lately than their [`CpuShare`].
//!
//! A lower priority costs a busy space nothing while the cores are idle. A future moves to another
//! lane between two polls, also in the middle of a response or a watch.

mod connection_lane;
mod cpu_share;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::future::BoxFuture;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

use super::limits::cores_but_one;

pub use connection_lane::ConnectionLane;
pub use cpu_share::CpuShare;

/// Which threads a future runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The threads of the server's own runtime.
    Interactive,
    /// The threads of the built-in controllers.
    Controllers,
    /// The threads of spaces that use much CPU time.
    Bulk,
}

/// The lanes of a server.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// The runtime of the server, if it has threads of its own: in a runtime of a single thread,
    /// everything runs on that thread.
    interactive: Option<Handle>,
}

/// A future that runs in the lane of its connection.
struct InLane {
    lanes: Lanes,
    connection: Arc<ConnectionLane>,
    lane: Lane,
    future: BoxFuture<'static, ()>,
}

/// The stack of a thread that serves requests. Objects are decoded and compared recursively, so
/// their greatest depth has to fit with room to spare; what is not used takes no memory.
pub const STACK_BYTES: usize = 8 << 20;

/// The nice values of the lanes. Beside a busy thread of the server or of another process, a thread
/// of bulk or of controllers gets a quarter of a core: enough to be served in time.
const CONTROLLERS_NICENESS: i32 = 5;
const BULK_NICENESS: i32 = 5;

impl Default for Lanes {
    fn default() -> Self {
        Self::new()
    }
}

impl Lanes {
    /// Creates the lanes of a server that runs on the current runtime, if there is one.
    pub fn new() -> Self {
        let current = Handle::try_current().ok();
        let has_threads = |handle: &Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
        Self {
            interactive: current.filter(has_threads),
        }
    }

    /// Returns the runtime of the built-in controllers: the current one if it has no threads.
    pub fn controllers(&self) -> Handle {
        let own = self.interactive.as_ref();
        let own = own.and_then(|_| Lane::Controllers.threads());
        own.cloned().unwrap_or_else(Handle::current)
    }

    /// Runs a future of a connection in the lane of that connection, until it ends.
    pub fn spawn(
        &self,
        connection: &Arc<ConnectionLane>,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        if self.interactive.is_none() {
            tokio::spawn(future);
            return;
        }
        let future = InLane {
            lanes: self.clone(),
            connection: Arc::clone(connection),
            lane: connection.current(Instant::now()),
            future: Box::pin(future),
        };
        future.spawn();
    }
}

impl Lane {
    /// Returns the runtime of a lane other than the interactive one, which is started at its first
    /// use. All servers of a process share it. `None` if its threads could not be started.
    fn threads(self) -> Option<&'static Handle> {
        static CONTROLLERS: OnceLock<Option<Runtime>> = OnceLock::new();
        static BULK: OnceLock<Option<Runtime>> = OnceLock::new();
        let (runtime, name, niceness) = match self {
            Self::Interactive => return None,
            Self::Controllers => (&CONTROLLERS, "insula-control", CONTROLLERS_NICENESS),
            Self::Bulk => (&BULK, "insula-bulk", BULK_NICENESS),
        };
        let runtime = runtime.get_or_init(|| start_threads(name, niceness));
        runtime.as_ref().map(Runtime::handle)
    }
}

impl InLane {
    fn spawn(self) {
        match self.lane.threads().or(self.lanes.interactive.as_ref()) {
            Some(runtime) => drop(runtime.clone().spawn(self)),
            None => drop(tokio::spawn(self)),
        }
    }
}

impl Future for InLane {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let began = Instant::now();
        let lane = self.connection.current(began);
        if lane != self.lane {
            let nothing = Box::pin(std::future::ready(()));
            let moved = Self {
                lanes: self.lanes.clone(),
                connection: Arc::clone(&self.connection),
                lane,
                future: std::mem::replace(&mut self.future, nothing),
            };
            moved.spawn();
            return Poll::Ready(());
        }
        let polled = self.future.as_mut().poll(context);
        self.connection.charge(began);
        polled
    }
}

/// Starts a runtime with threads of this nice value: one less than there are cores, because a
/// thread that wakes up waits for some milliseconds if all of them are busy, even with threads of
/// a lower priority.
fn start_threads(name: &str, niceness: i32) -> Option<Runtime> {
    let started = Builder::new_multi_thread()
        .enable_all()
        .worker_threads(cores_but_one() as usize)
        .thread_name(name)
        .thread_stack_size(STACK_BYTES)
        .on_thread_start(move || lower_priority(niceness))
        .build();
    started
        .inspect_err(|error| tracing::warn!(name, %error, "threads not started"))
        .ok()
}

/// Lowers the priority of the calling thread.
fn lower_priority(niceness: i32) {
    // On Linux a nice value is of one thread. Elsewhere it is of the whole process, and then all
    // lanes have the same.
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::setpriority_process(None, niceness)
    {
        tracing::debug!(%error, "priority of a thread not lowered");
    }
}
