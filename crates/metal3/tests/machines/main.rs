//! Machines: their hosts, Secrets, nodes and deletion, against a management cluster, a server with
//! hosts and a server with nodes.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../world/world.rs"]
mod world;

mod crash;
mod deletion;
mod identities;
mod order;
mod pools;
mod scene;
mod several_pools;
mod single_tenant;
mod spaces;
