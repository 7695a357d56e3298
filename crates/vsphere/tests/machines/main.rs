//! Machines and virtual machines, against a server and vCenters on loopback.

mod crash;
mod credentials;
mod life;
mod moves;
mod own;
mod spaces;
mod trouble;
mod vcsim;
mod world;
