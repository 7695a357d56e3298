//! A management cluster that was operated by Metal3's own provider, and is taken over.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../world/world.rs"]
mod world;

mod definitions;
mod take_over;
mod upstream;
