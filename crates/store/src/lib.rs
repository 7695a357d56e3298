//! The store: the contract, the laws that every engine obeys, and the engines.
//!
//! A store is an ordered map from opaque keys to opaque bytes, with one growing [`Revision`] for
//! the whole store. [`Store`] is the contract, with a law above each method; `laws` states them as
//! tests that every engine passes.
//!
//! | engine | use |
//! |---|---|
//! | [`memory`] | the reference model, in memory only |
//! | [`embedded`] | the default: one folder on one machine, nothing else to install |
//! | [`etcd`] | several replicas over one etcd v3 cluster |
//!
//! There is no HTTP and no Kubernetes here: no object, no schema, no space. Keys are built and
//! parsed elsewhere; to a store they are bytes.

mod compactor;
mod contract;
pub mod embedded;
mod error;
pub mod etcd;
mod key;
#[cfg(any(test, feature = "laws"))]
pub mod laws;
pub mod memory;
pub mod permissions;
pub mod regions;
mod transaction;

pub use compactor::Compactor;
pub use contract::{At, Changed, DiskSpace, Entry, Page, Store, Watch, WatchItem};
pub use error::{Error, Result};
pub use insula_core::Revision;
pub use key::{Key, KeyRange};
pub use transaction::{Change, Check, Conflict, Expect, Outcome, Transaction};
