//! Webhooks and policies that admit requests, without I/O: what is wrong with their
//! configuration, which requests they match, what they are asked, what their answers mean.
//!
//! ```text
//! validate    a configuration -> what is wrong with it
//! webhook     configurations -> hooks; a request -> whether one is called
//! review      a request -> what a hook is sent; its answer -> what it means
//! policy      policies and bindings -> what they say to a request, with CEL
//! ```
//!
//! Nothing here knows HTTP, a store, a tenant or a cache: whoever calls brings the objects.

mod condition;
mod criteria;
mod evaluation;
mod expression;
pub mod policy;
mod refusal;
mod request;
pub mod review;
pub mod url;
pub mod validate;
pub mod webhook;

pub use condition::Context;
pub use criteria::{Criteria, Served};
pub use refusal::Refusal;
pub use request::{
    GroupVersionKind, GroupVersionResource, Operation, Request, Requester, Subject, Target,
};
