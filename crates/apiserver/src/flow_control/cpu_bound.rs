//! CPU-bound work, off the threads that serve requests.
//!
//! Compiling a definition, validating an object or building a document may take up to a
//! second, depending on what users define. That is too long for one of the few threads that
//! serve requests, so such work runs beside them, and no more of it at once than leaves one
//! core free.

use insula_core::Space;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::flow_control::FlowControl;
use crate::status::Result;

/// Runs CPU-bound work while the runtime moves the other tasks of this thread elsewhere.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // A current-thread runtime has no other threads.
        _ => work(),
    }
}

/// Runs CPU-bound work with a heavy seat of the space.
///
/// # Errors
///
/// If too many requests wait for such a seat.
pub async fn run_with_seat<T>(
    flow_control: &FlowControl,
    space: &Space,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    let _seat = flow_control.acquire_heavy(space).await?;
    Ok(run_blocking(work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// With one worker thread, the send could not run if the work blocked that thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_during_cpu_bound_work() {
        let (send, receive) = mpsc::channel();
        let work =
            tokio::spawn(
                async move { run_blocking(|| receive.recv_timeout(Duration::from_secs(30))) },
            );
        let other = tokio::spawn(async move { send.send(7) });
        assert_eq!(other.await.unwrap(), Ok(()));
        assert_eq!(work.await.unwrap(), Ok(7));
    }
}
