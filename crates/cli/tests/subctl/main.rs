//! `subctl` and the operator from the user's point of view: real processes on a real server.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod broker;
mod clusterset;
mod connection;
mod help;
mod join;
mod operators;
mod scene;
mod tenant;
