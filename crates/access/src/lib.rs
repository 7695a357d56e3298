//! Who asks, and which spaces they may enter.
//!
//! A [`Credential`] is what a certificate or a token says; [`settle`] makes a principal of
//! it, which belongs to exactly one space; [`may_enter`] is the wall between the spaces.
//!
//! An [`Authority`] makes certificates that say the same.
//!
//! Whether a certificate is genuine is decided before, by whoever was shown it; what a principal may do
//! inside its space is decided after. Nothing here knows HTTP, and the one thing read from
//! disk is the token file.

mod authority;
pub mod certificate;
mod credential;
mod entrance;
mod settle;
pub mod token_file;

pub use authority::{Authority, AuthorityError, Issued, Request, RequestError, Subject, Validity};
pub use credential::{Credential, TENANT_PREFIX, TenantError};
pub use entrance::may_enter;
pub use settle::{NoTenant, settle};
pub use token_file::TokenFile;
