//! Data templates, data and address pools, against a management cluster and a server with hosts.
//! Most tests play the part of the machines, which are paused.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../world/world.rs"]
mod world;

mod crash;
mod identity;
mod in_cluster;
mod indexes;
mod machine_template;
mod machines;
mod other_pools;
mod pools;
mod scene;
