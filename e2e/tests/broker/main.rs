//! Submariner brokers for many tenants, with the programs as users run them.
//!
//! Against an Insula, or with `INSULA_BROKER_CLUSTER=kubernetes` against a real one. Tests
//! that begin with `rNN` state a line of the checklist; README.md says which stands for which.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod across;
mod api;
mod axon;
mod cast;
mod cluster;
mod content;
mod coverage;
mod create;
mod deploy;
mod goals;
mod isolation;
mod journal;
mod kill;
mod manage;
mod person;
mod settings;
mod spaces;
mod subm;
mod trust;
mod waiting;
mod walk;
