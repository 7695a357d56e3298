//! The reconcilers. Read `run` first, then the `reconcile` of each kind.

mod claim;
mod cluster;
mod commit;
pub(crate) mod condition;
mod context;
mod event;
pub(crate) mod family;
mod given;
mod heard;
pub(crate) mod identify;
mod identity;
mod key;
mod machine;
mod pace;
mod paused;
pub(crate) mod read;
mod run;
mod secret;
mod vm;
mod wake;
mod watch;
mod zone;

pub use context::Static;
pub use given::Given;
pub use pace::Pace;
pub use run::{Settings, run, sessions};

/// The User-Agent of the operator.
pub const AGENT: &str = concat!("insula-vsphere/", env!("CARGO_PKG_VERSION"));
