//! `insula operator azure` from the user's point of view: a real process on a real server, with
//! the rights that its manifests give.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod explain;
mod import;
mod kubelet;
mod printed;
mod process;
mod scene;
mod serve;
mod switching;
mod tls_client;
mod watchers;
mod webhooks;
