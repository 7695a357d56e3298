//! Remediations: restarts of hosts, with their nodes and machines, against a management cluster, a
//! server with hosts and a server with nodes; and labels of hosts on nodes.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../world/world.rs"]
mod world;

#[path = "../machines/scene.rs"]
#[expect(dead_code, reason = "tests of machines use all of it")]
mod scene;

mod case;
mod crash;
mod deletion;
mod health_check;
mod hosts;
mod identities;
mod labels;
mod older_cluster;
mod phases;
mod spaces;
