//! Resources: their life in Azure, owners and references, with the credential of each namespace.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../world/world.rs"]
mod world;

mod edited;
mod every_kind;
mod exports;
mod failures;
mod imported;
mod life;
mod limits;
mod policies;
mod recording;
mod removal;
mod roles;
mod scale;
mod scene;
mod services;
mod steady;
