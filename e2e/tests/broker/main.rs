//! Submariner brokers for many tenants, tested with the real programs.
//!
//! Against an Insula server, or with `INSULA_BROKER_CLUSTER=kubernetes` against a real
//! Kubernetes. Tests that begin with `rNN` prove a requirement of
//! `docs/requirements/brokers.md`.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod api;
mod axon;
mod cluster;
mod compatibility;
mod content;
mod coverage;
mod create;
mod deploy;
mod fixture;
mod general;
mod isolation;
mod journal;
mod kill;
mod lifecycle;
mod manage;
mod settings;
mod spaces;
mod subm;
mod trust;
mod user;
mod wait;
