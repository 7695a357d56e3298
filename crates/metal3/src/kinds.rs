//! The custom resources.

pub mod cluster;
pub mod data;
pub mod data_claim;
pub mod data_template;
pub mod host;
pub mod machine;
pub mod remediation;
