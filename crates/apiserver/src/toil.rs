//! Work that keeps a core busy, done where nobody else waits for it.
//!
//! What users define decides how long it takes to read a definition, to judge an object, to
//! put a document together: up to a second. A thread that answers requests has no such time,
//! and there are few of them. So such work is done beside them, and by no more at once than
//! leave a core to everybody else.

use insula_core::Space;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::authorize::Granted;
use crate::limit::Shares;
use crate::status::Result;

/// Does something that takes long, while other threads take over what this one had to do.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
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
pub async fn in_turn<T>(
    shares: &Shares,
    space: &Space,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    let _seat = shares.toil(space).await?;
    Ok(aside(work))
}

/// The same for whoever sent a request. What the server does by itself needs no turn.
///
/// # Errors
///
/// If too many wait for that.
pub async fn of_request<T>(by: Option<&Granted>, work: impl FnOnce() -> T + Send) -> Result<T> {
    match by {
        Some(by) => by.errand().toil(work).await,
        None => Ok(aside(work)),
    }
}
