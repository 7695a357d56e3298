//! The sessions in the README and in docs/security.md, run exactly as written.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod azure;
mod brokers;
mod metal3;
mod security;
mod shell;
mod tenants;
mod vsphere;
