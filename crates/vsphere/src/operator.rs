//! The reconcilers. Read `run` first, then the `reconcile` of each kind.

mod claim;
mod cluster;
mod commit;
pub(crate) mod condition;
mod context;
mod event;
mod identity;
mod intervals;
mod key;
mod machine;
pub(crate) mod owning_cluster;
mod paused;
pub(crate) mod read;
mod requeue;
pub(crate) mod resolve;
mod run;
mod secret;
mod session_liveness;
mod static_credentials;
mod vm;
mod watch;
mod zone;

pub use context::StaticCredentials;
pub use intervals::Intervals;
pub use run::{Settings, default_addresses, run, session_settings};
pub use static_credentials::CredentialsFile;

/// The User-Agent of the operator.
pub const AGENT: &str = concat!("insula-vsphere/", env!("CARGO_PKG_VERSION"));
