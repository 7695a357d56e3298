//! Moves of clusters to another management cluster, with the hosts next to their machines, and
//! without the hosts that a kubeconfig reaches.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../world/world.rs"]
mod world;

mod beside;
mod clusterctl;
mod elsewhere;
mod killed;
mod refused;
mod scene;
mod spaces;
