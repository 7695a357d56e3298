//! Who asks, and which spaces they may enter.
//!
//! A [`Credential`] is what a certificate or a token says; [`settle`] makes a principal of
//! it, which belongs to exactly one space; [`may_enter`] is the wall between the spaces.
//!
//! A [`jwt`] is a token that proves itself, by its signature.
//!
//! An [`Authority`] makes certificates that say the same.
//!
//! [`rbac`] decides what a principal may do inside a space, by the roles and bindings
//! there.
//!
//! Whether a certificate is genuine is decided before, by whoever was shown it. Nothing here
//! knows HTTP, and the one thing read from disk is the token file.

mod authority;
pub mod certificate;
mod credential;
mod entrance;
pub mod jwt;
pub mod oidc;
pub mod rbac;
mod settle;
pub mod token_file;

pub use authority::{Authority, AuthorityError, Issued, Request, RequestError, Subject, Validity};
pub use credential::{Credential, TENANT_PREFIX, TenantError};
pub use entrance::may_enter;
pub use settle::{NoTenant, settle};
pub use token_file::TokenFile;
