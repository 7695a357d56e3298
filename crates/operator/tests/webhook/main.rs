//! The webhook server end to end: called in process and over the network by a real API server.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod in_process;
mod network;
mod replicas;
mod scene;
