//! The reconcilers. Read `provider` first, then the `reconcile` of each kind.

mod cluster;
pub(crate) mod condition;
mod context;
pub(crate) mod credentials;
mod intervals;
mod machine;
mod provider;
mod run;
mod vm;
mod zone;

pub use insula_operator::provider::StaticCredentials;
pub use intervals::Intervals;
pub(crate) use provider::IDENTITIES;
pub use run::{Settings, credentials_file, default_addresses, run};

/// The User-Agent of the operator.
pub const AGENT: &str = concat!("insula-vsphere/", env!("CARGO_PKG_VERSION"));
