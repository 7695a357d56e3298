//! The reconcilers that bring hosts in line with the custom resources.
//!
//! | module | content |
//! |---|---|
//! | `run` | settings and start |
//! | `provider` | what the shell of the operator has to know about Metal3 |
//! | `access` | the hosts that an object may use |
//! | `cluster` | reconciles clusters: verifies the credential, reports the endpoint |
//! | `conditions` | conditions in the form of both contracts of Cluster API |

mod access;
mod cluster;
mod conditions;
mod provider;
mod run;

pub use crate::names::AGENT;
pub use provider::Metal3;
pub use run::{Settings, default_addresses, run};

/// The reconciliation of one object.
type Reconciliation<'a> = insula_operator::provider::Reconciliation<'a, Metal3>;
