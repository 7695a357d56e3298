//! The kinds on a whole server: definitions, versions and webhooks.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod coverage;
mod definitions;
mod hosts;
mod identities;
mod objects;
mod scene;
mod types;
mod versions;
mod webhooks;
