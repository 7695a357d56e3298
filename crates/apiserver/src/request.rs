//! The parts of a request: query, headers, body and context.

pub mod annotations;
pub mod context;
pub mod negotiate;
pub mod query;
pub mod receive;
