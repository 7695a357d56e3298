//! Moves of clusters between two servers, and between spaces of one.

mod identities;
mod killed;
mod moves;
mod not_moved;
mod refused;
mod scene;
