//! The stages of a request before its objects are read or written: routing, authentication,
//! impersonation, authorization and audit.

pub mod audit;
pub mod authenticate;
pub mod authorize;
pub mod client_certificates;
pub mod credential_check;
pub mod impersonate;
pub mod locate;
pub mod node_authorizer;
pub mod oidc;
pub mod policy;
pub mod revocation;
pub mod route;
pub mod service_account;
pub mod trust;
