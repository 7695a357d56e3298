//! Moves of clusters between two servers, and between spaces of one.

mod aside;
mod cut;
mod identities;
mod moves;
mod refused;
mod scene;
