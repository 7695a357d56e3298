//! Machines and virtual machines, against a server and vCenters on loopback.

#[path = "../world/world.rs"]
mod shared;

mod crash;
mod credentials;
mod life;
mod moves;
mod ownership;
mod problems;
mod spaces;
mod vcsim;
mod world;
