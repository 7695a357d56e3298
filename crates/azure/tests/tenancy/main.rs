//! Tenants: several operators, their namespaces and claims, and the credential of each resource.
//!
//! The number in the name of a test is that of the requirement.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../world/world.rs"]
mod world;

mod credentials;
mod duplicates;
mod identities;
mod invariant;
mod operators;
mod overlap;
mod proofs;
mod removal;
mod scene;
mod watches;
