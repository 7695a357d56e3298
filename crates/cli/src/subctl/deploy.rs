//! `subctl deploy`.

pub mod axon;
