//! Moves Cluster API clusters from one API server to another.
//!
//! The crate does what `clusterctl move` does, with two clients and nothing else: each may lead
//! to a server, a space of an Insula, or any stock Kubernetes. Running clusters are not touched:
//! they are paused at both servers while they exist at both, and no finalizer is ever run at the
//! source. All progress is recorded in the objects, so a move that was killed is resumed by
//! running it again.
//!
//! | module | content |
//! |---|---|
//! | [`run`] | the order of a move; read it first |
//! | [`settings`] | the options of a move |
//! | `plan` | which objects are moved or copied, and in which order; no I/O |
//! | `check` | whether clusters can be moved; no I/O |
//! | [`error`] | why a move failed, and what to do about it |
//!
//! It does not convert versions, does not move between namespaces, and does not copy `status`:
//! the controllers at the target write it anew.

mod check;
mod copy;
pub mod error;
mod hold;
mod kind;
mod names;
mod namespaces;
mod not_moved;
mod observe;
mod pause;
mod plan;
mod release;
mod remove;
pub mod run;
mod server;
pub mod settings;

pub use error::Error;
pub use run::{Moved, preview, relocate};
pub use settings::{Identities, NamespaceLabels, Pauses, Settings};
