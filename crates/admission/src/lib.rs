//! Admission webhooks, policies and PodSecurity without I/O: their validation, the requests
//! they match, the reviews they receive, and the meaning of their responses.
//!
//! ```text
//! validate      a configuration -> its errors
//! webhook       configurations -> webhooks; a request -> whether a webhook is called
//! review        a request -> the AdmissionReview to send; its response -> an answer
//! policy        policies and bindings -> their decision about a request, with CEL
//! pod_security  a pod and the policy of its namespace -> violations, warnings, annotations
//! ```
//!
//! This crate knows no HTTP, store, tenant or cache: the caller supplies the objects.

mod condition;
mod criteria;
mod evaluation;
mod expression;
pub mod pod_security;
pub mod policy;
mod refusal;
mod request;
pub mod review;
pub mod validate;
pub mod webhook;

pub use condition::Context;
pub use criteria::{Criteria, EquivalentResources};
pub use refusal::Refusal;
pub use request::{
    GroupVersionKind, GroupVersionResource, Operation, Request, Target, UserInfo, VersionedObjects,
};
