//! What brings the kinds to be in vCenters. Read `run` first, then the `reconcile` of each.

mod cluster;
mod commit;
mod context;
mod identify;
mod identity;
mod key;
mod machine;
mod run;
mod secret;
mod vm;
mod watch;
mod zone;

pub use context::Static;
pub use run::{Settings, run};

/// As which program it introduces itself.
pub const AGENT: &str = concat!("insula-vsphere/", env!("CARGO_PKG_VERSION"));
