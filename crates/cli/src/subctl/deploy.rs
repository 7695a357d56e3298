//! `subctl deploy`.

pub mod axon;
pub mod broker;
