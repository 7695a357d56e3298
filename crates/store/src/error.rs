use std::path::PathBuf;

use insula_core::Revision;

/// The result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store operation failed.
///
/// A failed commit with any error but [`Error::Indeterminate`] changed nothing and never will.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The history before `floor` is gone.
    #[error("revision is compacted; the oldest available revision is {floor}")]
    Compacted {
        /// The oldest revision that can still be read, and watched from.
        floor: Revision,
    },

    /// The requested revision has not been reached.
    #[error("revision is not reached yet; the store is at {current}")]
    Future {
        /// The store's revision.
        current: Revision,
    },

    /// The transaction violates the contract.
    #[error("invalid transaction: {0}")]
    Invalid(&'static str),

    /// The transaction is larger than every engine supports.
    #[error(
        "transaction is too large: {bytes} bytes of keys and values, at most {limit} are allowed"
    )]
    TooLarge {
        /// The size of the transaction.
        bytes: usize,
        /// The largest supported size.
        limit: usize,
    },

    /// There is no room for more data. Reads still work, and writes too once there is room again.
    #[error("the store is full: {0}")]
    Full(String),

    /// The store cannot be reached or has stopped; the call changed nothing.
    #[error("the store is not available: {0}")]
    Unavailable(String),

    /// The commit was sent and no answer came: it may have happened, and may still happen.
    #[error("it is not known whether the write happened: {0}")]
    Indeterminate(String),

    /// The data on disk is not the data that was written.
    #[error("{} is damaged: {detail}", file.display())]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// The damage.
        detail: String,
    },

    /// Another process has the folder open.
    #[error("{} is in use by another process", .0.display())]
    Locked(PathBuf),
}
