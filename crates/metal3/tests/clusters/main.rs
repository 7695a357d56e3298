//! Clusters: their credentials, conditions and deletion, against a management cluster and a server
//! with hosts. The fake Bare Metal Operator of these tests is tested here too.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../world/world.rs"]
mod world;

mod bare_metal;
mod basics;
mod credentials;
mod hostile;
mod life;
mod order;
mod spaces;
