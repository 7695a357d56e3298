//! The README's sessions, typed as they stand there.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod brokers;
mod tenants;
mod typing;
mod vsphere;
