use insula_store::Error as StoreError;

use crate::DataKeyId;
use crate::cipher::NoRandomness;

/// The result of an operation on keys.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why keys could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(String),

    /// A provider did not answer, or refused.
    #[error("the key provider {provider} failed: {reason}")]
    Provider {
        /// The provider's name.
        provider: String,
        /// The reason.
        reason: String,
    },

    /// A root key was wrapped with a provider key that the configuration does not contain.
    #[error("the root key in {record} is wrapped with {provider}, which the configuration lacks")]
    ProviderKeyMissing {
        /// The record of the root key.
        record: String,
        /// The provider and its key.
        provider: String,
    },

    /// Values are sealed with a data key that is missing, although it was not destroyed.
    #[error("the data key {id} is missing: there is no {record}")]
    DataKeyMissing {
        /// The ID of the data key.
        id: DataKeyId,
        /// The record that it was expected in.
        record: String,
    },

    /// The data key was destroyed with its tenant.
    #[error("the data key {0} was destroyed with its tenant")]
    Destroyed(DataKeyId),

    /// A record is not what was written.
    #[error("{record} is damaged: {detail}")]
    Damaged {
        /// The record.
        record: String,
        /// The damage.
        detail: String,
    },

    /// The keys belong to another store, or to a newer state of this one.
    #[error("the keys do not belong to this store ({record}): {detail}")]
    OtherStore {
        /// The record that names the store of the keys.
        record: String,
        /// The difference.
        detail: String,
    },

    /// Records cannot be read or written.
    #[error("{0}")]
    Storage(String),

    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// The operating system returned no random bytes.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl Error {
    /// A hint for the operator.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Config(_) => Some("docs/encryption.md describes the configuration"),
            Self::ProviderKeyMissing { .. } => Some(
                "keep a provider key in the configuration, after the new one, until `insula encryption status` no longer shows it",
            ),
            Self::DataKeyMissing { .. } | Self::Damaged { .. } => Some(
                "nothing was changed; restore the record from a backup: without it the values sealed with it are lost",
            ),
            Self::OtherStore { .. } => Some(
                "nothing was changed; check that the right `store` folder is mounted; to use this one with these keys, run `insula encryption accept-store`, or move the `encryption` folder away to start without them",
            ),
            _ => None,
        }
    }
}

/// The error as a store reports it. A missing key is damage: objects must not disappear silently.
impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => error,
            Error::DataKeyMissing { id, record } => Self::Corrupt {
                file: record.into(),
                detail: format!(
                    "the record is missing, and values are sealed with the data key {id}"
                ),
            },
            Error::Damaged { record, detail } => Self::Corrupt {
                file: record.into(),
                detail,
            },
            other => Self::Unavailable(other.to_string()),
        }
    }
}
