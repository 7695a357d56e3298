//! What a request carries, beside the object that it is about.

pub mod context;
pub mod negotiate;
pub mod query;
pub mod receive;
