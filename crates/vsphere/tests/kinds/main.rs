//! The kinds on a whole server: definitions, rights and policies.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod coverage;
mod definitions;
mod explain;
mod policies;
mod rights;
mod scene;
mod versions;
mod webhook_server;
