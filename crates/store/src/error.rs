use std::path::PathBuf;

use insula_core::Revision;

/// What a store answers.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store could not do what it was asked.
///
/// A failed commit whose error is anything but [`Error::Indeterminate`] changed nothing
/// and never will.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The history before `floor` is gone.
    #[error("that revision is no longer kept; the oldest that is kept is {floor}")]
    Compacted {
        /// The oldest revision that can still be read, and watched from.
        floor: Revision,
    },

    /// The revision asked for has not happened yet.
    #[error("that revision has not happened yet; the store is at {current}")]
    Future {
        /// The store's revision.
        current: Revision,
    },

    /// The transaction breaks the contract.
    #[error("the transaction is not valid: {0}")]
    Invalid(&'static str),

    /// The transaction is larger than any engine takes.
    #[error("the transaction has {bytes} bytes of keys and values; the most is {limit}")]
    TooLarge {
        /// What it has.
        bytes: usize,
        /// What it may have.
        limit: usize,
    },

    /// There is no room for more. Reads go on, and writes too once there is room again.
    #[error("the store is full: {0}")]
    Full(String),

    /// The store cannot be reached or has stopped; nothing was changed by this call.
    #[error("the store is not available: {0}")]
    Unavailable(String),

    /// The commit was sent and no answer came: it may have happened or not, and may
    /// still happen.
    #[error("it is not known whether the write happened: {0}")]
    Indeterminate(String),

    /// What is on disk is not what was written there.
    #[error("{} is damaged: {detail}", file.display())]
    Corrupt {
        /// Where.
        file: PathBuf,
        /// What is wrong with it.
        detail: String,
    },

    /// Another process has the folder open.
    #[error("{} is in use by another process", .0.display())]
    Locked(PathBuf),
}
