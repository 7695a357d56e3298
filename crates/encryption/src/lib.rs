//! Encryption at rest: a configuration in Kubernetes' words, a hierarchy of keys, and a store that
//! seals the values of other stores.
//!
//! ```text
//! provider key    in the configuration file, or in a KMS       wraps
//! root keys       one per provider key in use                  wrap
//! data keys       one per tenant UID, one for the system       seal
//! values          each under a key derived for it alone
//! ```
//!
//! A provider is asked when the server starts and when keys rotate, never for a tenant or a
//! request. [`EncryptedStore`] obeys the contract of [`Store`](insula_store::Store), so everything
//! above it is unaware of encryption, except that a [`Resolver`] must say which space a key belongs
//! to: only the layers above know the scopes of resources and the UIDs of tenants.
//!
//! A tenant's data key is destroyed with the tenant. What was sealed with it is then treated as
//! deleted wherever it is met: in history, in an old copy of the store, in a watch that fell behind.

mod binding;
mod cipher;
pub mod config;
mod encrypted_store;
mod envelope;
mod error;
mod key_id;
mod key_ring;
pub mod key_storage;
pub mod provider;
mod record;
mod rewrite;
mod status;
mod sweep;

pub use config::{Config, generate_secret};
pub use encrypted_store::{EncryptedStore, Location, Owner, Resolver};
pub use envelope::is_sealed;
pub use error::{Error, Result};
pub use key_id::DataKeyId;
pub use key_ring::RootKeyStatus;
pub use status::{KeySummary, Stats};
