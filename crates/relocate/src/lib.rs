//! Clusters of Cluster API, moved from one API server to another.
//!
//! It does what `clusterctl move` does, over two clients and nothing else: a server, a space
//! of an Insula, or any stock Kubernetes. Nothing that runs is touched: both ends are paused
//! while an object is at both, and no finalizer is ever run at the source. It keeps nothing
//! of its own. What a move has done so far is in the objects, so that one that was killed is
//! taken up by running it again.
//!
//! | module | is |
//! |---|---|
//! | [`run`] | the order of a move; read it first |
//! | [`settings`] | what it can be told |
//! | [`plan`] | pure: what moves, what is copied, and in which order |
//! | [`check`] | pure: whether clusters are fit to be moved |
//! | [`error`] | why something was not moved, and what to do about it |
//!
//! It does not convert versions, does not move between namespaces, and does not carry what a
//! controller says of itself (`status`): the controllers at the target say it anew.

pub mod check;
mod copy;
mod end;
pub mod error;
mod ground;
mod kind;
mod names;
mod observe;
mod pause;
pub mod plan;
mod release;
mod remove;
pub mod run;
pub mod settings;

pub use error::Error;
pub use run::{Moved, preview, relocate};
pub use settings::{Identities, NamespaceLabels, Pauses, Settings};
