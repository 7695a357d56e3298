//! Clusters, identities and zones, against a whole Insula and vCenters, with exactly the rights
//! that the operator is deployed with.

#[path = "../world/world.rs"]
mod world;

mod basics;
mod changes;
mod delete;
mod escalation;
mod guards;
mod life;
mod sessions;
mod spaces;
