//! Work that keeps a core busy, done where nobody else waits for it.
//!
//! What users define decides how long it takes to read a definition, to judge an object, to
//! put a document together: up to a second. A thread that answers requests has no such time,
//! and there are few of them. So such work is done beside them, and by no more at once than
//! leave a core to everybody else.

use insula_core::Space;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::flow_control::FlowControl;
use crate::status::Result;

/// Does something that takes long, while other threads take over what this one had to do.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There are no other threads.
        _ => work(),
    }
}

/// Does something that takes long when it is the space's turn.
///
/// # Errors
///
/// If too many wait for that.
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

    /// With one thread, nobody could send what the work waits for if the work had the thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn while_something_takes_long_others_are_served() {
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
