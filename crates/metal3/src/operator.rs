//! The reconcilers that bring hosts in line with the custom resources.
//!
//! | module | content |
//! |---|---|
//! | `run` | settings and start |
//! | `provider` | what the shell of the operator has to know about Metal3 |
//! | `context` | the state that all reconciliations share |
//! | `access` | the hosts that an object may use |
//! | `cluster` | reconciles clusters: verifies the credential, reports the endpoint |
//! | `machine` | reconciles machines: gives them hosts, provisions these, and releases them |
//! | `host_secret` | Secrets next to hosts that a kubeconfig reaches |
//! | `conditions` | conditions in the form of both contracts of Cluster API |

mod access;
mod cluster;
mod conditions;
mod context;
mod host_secret;
mod machine;
mod provider;
mod run;

pub use crate::names::AGENT;
pub use context::Metal3;
pub use run::{Settings, default_addresses, run};
