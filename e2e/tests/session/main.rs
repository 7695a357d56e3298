//! The sessions in the README, run exactly as written.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod brokers;
mod shell;
mod tenants;
mod vsphere;
