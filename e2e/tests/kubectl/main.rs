//! kubectl's everyday vocabulary, as two tenants type it at the same time under the same
//! names, and as the system's administrator does.
//!
//! Every command's text is checked, not only that it succeeded.

mod apply;
mod audit;
mod auth;
mod cast;
mod change;
mod create;
mod credentials;
mod custom;
mod describe;
mod impersonation;
mod manifests;
mod read;
mod remove;
mod roles;
mod rollout;
mod server;
mod system;
mod tenants;
mod tokens;
mod waiting;
