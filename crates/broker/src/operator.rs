//! The tenant operator: provisions the broker prerequisites of every Tenant, and removes them.
//!
//! ```text
//! watch -> load -> finalizer -> observe -> plan (pure) -> status (pure) -> write -> execute -> repeat
//! ```
//!
//! The state is read from the server each time, and every write has a precondition. So the
//! operator can be killed between any two writes, and the next instance continues.
//!
//! | module | content |
//! |---|---|
//! | `run` | startup and settings |
//! | `context` | the shared state of all reconciliations |
//! | `reconcile` | the steps for one tenant; read it first |
//! | `watch` | the watches that trigger reconciliations |
//! | `observe` | the observed state |
//! | `object` | the objects it creates, and the actions on them |
//! | `desired` | the desired objects of a tenant |
//! | `plan` | from the observed state to the actions |
//! | `remove` | the same for a tenant that is being deleted |
//! | `problem` | problems, reasons and how they are retried |
//! | `status` | the Tenant's status |
//! | `execute` | execution of the actions |
//! | `event` | events |

mod context;
mod desired;
mod event;
mod execute;
mod object;
mod observe;
mod plan;
mod problem;
mod reconcile;
mod remove;
mod run;
mod status;
mod watch;

pub use run::{Settings, run};

/// The user agent of the operator.
pub const AGENT: &str = concat!("axon-operator/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
