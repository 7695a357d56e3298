//! The tenant operator: gives every Tenant what its broker needs, and takes it away again.
//!
//! ```text
//! watch -> load -> hold -> observe -> plan (pure) -> conclude (pure) -> tell -> act -> again
//! ```
//!
//! Everything that is there is read anew each time, and every write says what it is based
//! on. So it can be ended between any two of its writes, and whoever comes next goes on.
//!
//! | module | is |
//! |---|---|
//! | `run` | the operator's life |
//! | `reconcile` | the steps for one tenant; read it first |
//! | `watch` | what calls for work |
//! | `observe` | what there is |
//! | `object` | the objects that it makes, and what can be done to them |
//! | `wanted` | how the objects of a tenant should be |
//! | `plan` | from what there is to what is to be done |
//! | `remove` | the same, for a tenant that goes |
//! | `problem` | what can be in the way |
//! | `conclude` | what is said of it in the Tenant's status |
//! | `act` | doing it |
//! | `event` | what is told beside |

mod act;
mod conclude;
mod event;
mod object;
mod observe;
mod plan;
mod problem;
mod reconcile;
mod remove;
mod run;
mod wanted;
mod watch;

pub use run::{Settings, run};

/// How the operator introduces itself.
pub const AGENT: &str = concat!("axon-operator/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
