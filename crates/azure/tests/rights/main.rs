//! The printed manifests on a whole server: which objects it accepts, and which rights their
//! accounts have.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod definitions;
mod matrix;
mod scene;
mod settings;
