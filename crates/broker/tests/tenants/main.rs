//! What those who manage tenants do, on a whole Insula in the test's process. A stand-in
//! does the operator's work, so that each moment of it can be looked at.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod create;
mod credentials;
mod delete;
mod docs;
mod list;
mod scene;
