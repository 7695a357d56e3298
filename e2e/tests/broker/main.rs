//! Submariner brokers for many tenants, tested with the real programs.
//!
//! Against an Insula server, or with `INSULA_BROKER_CLUSTER=kubernetes` against a real
//! Kubernetes. Tests that begin with `rNN` prove a requirement of
//! `docs/requirements/brokers.md`.
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
