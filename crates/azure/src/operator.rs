//! The operator: brings resources in Azure in line with custom resources.
//!
//! One reconciler serves all kinds. What is special about a kind is in the [table](crate::table).
//!
//! | module | content |
//! |---|---|
//! | `run` | settings and start; read it first |
//! | `reload` | the start with other settings |
//! | [`missing_rights`] | the rights that it lacks |
//! | `served` | the kinds and versions that the API server has |
//! | `provider` | what the shell of the operator has to know |
//! | `reconcile` | the steps of one reconciliation, in their order |
//! | `object` | the custom resource that is reconciled, and its writes |
//! | `original_version` | the versions in which users wrote objects |
//! | `claim` | which of several operators reconciles an object |
//! | `namespace_claim` | which operator is configured for a namespace |
//! | `ownership` | which of several objects with one ARM id owns the resource |
//! | `duplicate` | objects with the resource of another one |
//! | `policy` | what may be done with the resource in Azure |
//! | `credentials` | which credential an object gets, and that it never gets a wider one later |
//! | `held_secret` | the Secret with the credential, which is held while a resource needs it |
//! | `inputs` | the ids and values that a body needs from other objects |
//! | `access` | the access of an object to its subscription |
//! | `requests` | turns and limits of requests to ARM, and what follows from their failures |
//! | `send`, `monitor`, `conclude`, `remove` | what is requested of ARM |
//! | `behaviour` | what some kinds need besides a PUT |
//! | `export` | Secrets and ConfigMaps with values of the resource |
//! | `ready` | the condition `Ready` |
//! | `rate_limit` | the limit of reconciliations per second |
//! | `pacing` | when ARM may be called for an object again |
//! | `assertions` | tokens of service accounts for workload identities |

mod access;
mod assertions;
mod behaviour;
mod claim;
mod conclude;
mod credentials;
mod duplicate;
mod export;
mod foreign_claim;
mod held_secret;
mod inputs;
pub mod missing_rights;
mod monitor;
mod namespace_claim;
mod object;
mod original_version;
mod ownership;
mod pacing;
mod policy;
mod provider;
mod rate_limit;
mod ready;
mod reconcile;
mod reload;
mod remove;
mod requests;
mod run;
mod send;
mod served;

pub(crate) use credentials::Terms;
pub use provider::Azure;
pub(crate) use ready::READY;
pub use reload::run_reloading;
pub use run::{NotStarted, Operator, check, run};
pub use served::{Outdated, ServedKinds};

type Reconciliation<'a> = insula_operator::provider::Reconciliation<'a, Azure>;
