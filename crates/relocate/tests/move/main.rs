//! Clusters moved between two servers, and between spaces of one.

mod cut;
mod identities;
mod moves;
mod refused;
mod scene;
