//! Tests of joining, against in-process servers.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod addresses;
mod cut;
mod diagnose;
mod joined;
mod recover;
mod refused;
mod show;
mod stage;
mod unjoin;
