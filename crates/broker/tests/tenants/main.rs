//! Tests of tenant management, on an in-process Insula server. A stand-in does the operator's
//! work, so that each step can be inspected.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod create;
mod credentials;
mod delete;
mod docs;
mod list;
mod scene;
