//! The client of Azure Resource Manager (ARM).
//!
//! | module | content |
//! |---|---|
//! | [`id`] | ids of resources: parsed, composed and compared |
//! | [`client`] | requests with the tokens of one credential; read it first |
//! | [`operation`] | long-running operations as a state machine without I/O |
//! | [`resume_token`] | operations in progress as the text of an annotation |
//! | [`error`] | error bodies, and how an error is retried |
//! | [`retry_after`] | the delay before the next request, as responses have it |
//! | [`throttle`] | rate limits of a subscription, shared fairly by its owners |
//! | [`session`] | sessions: a client for the subscription of one credential |

pub mod client;
pub mod error;
pub mod id;
pub mod operation;
pub mod resume_token;
pub mod retry_after;
pub mod session;
#[cfg(test)]
pub(crate) mod test_server;
pub mod throttle;

pub use client::{Client, RequestFailure, Response};
pub use error::{ArmError, Retry};
pub use id::ResourceId;
pub use operation::{Method, Progress};
pub use resume_token::ResumeToken;
pub use session::{Session, Subscriptions};
