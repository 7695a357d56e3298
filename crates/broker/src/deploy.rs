//! How the operator, or a broker, is put on a cluster.

pub mod axon;
pub mod broker;
mod rights;
