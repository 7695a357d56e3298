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
//! | `remediation` | reconciles remediations: restarts the hosts of unhealthy machines |
//! | `data_template` | reconciles data templates: an index and an object with data for each claim |
//! | `data` | reconciles data: claims addresses, renders it, writes the Secrets next to the host |
//! | `ip_pool` | reconciles address pools: an address for each claim |
//! | `machine_template` | reconciles machine templates: copies the cleaning mode to machines |
//! | `claims` | triggers the template or pool that a claim names |
//! | `host_secret` | Secrets next to hosts that a kubeconfig reaches |
//! | `list` | searches in lists of servers that tenants choose |
//! | `reported` | problems that were reported with events |
//! | `workload` | clients of workload clusters |
//! | `conditions` | conditions in the form of both contracts of Cluster API |

mod access;
mod claims;
mod cluster;
mod conditions;
mod context;
mod data;
mod data_template;
mod host_secret;
mod ip_pool;
mod list;
mod machine;
mod machine_template;
mod provider;
mod remediation;
mod reported;
mod run;
mod workload;

pub use crate::names::AGENT;
pub(crate) use cluster::INFRASTRUCTURE;
pub use context::Metal3;
pub(crate) use machine::HOST;
pub use run::{Settings, default_addresses, run};
