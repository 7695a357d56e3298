//! Authentication data and authorization rules: principals, the spaces they may enter, and
//! RBAC inside a space.
//!
//! A [`Credential`] holds what a certificate or a token claims. [`resolve_principal`] turns it into a
//! principal, which belongs to exactly one space, and [`may_enter`] decides which spaces that
//! principal may enter.
//!
//! - [`jwt`] and [`oidc`] verify signed tokens; [`TokenFile`] reads static ones.
//! - [`Authority`] is a CA that issues certificates carrying the same claims.
//! - [`rbac`] evaluates the roles and bindings of a space.
//!
//! Certificate chains are verified by the TLS layer before they reach this crate. The crate
//! does not know HTTP, and the token file is the only thing it reads from disk.

mod authority;
pub mod certificate;
mod credential;
pub mod jwt;
pub mod oidc;
mod principal;
pub mod rbac;
mod space_entry;
mod token_file;

pub use authority::{
    AlternativeName, Authority, AuthorityError, CertificateRequest, CertificateRequestError,
    IssuedCertificate, Subject,
};
pub use certificate::Validity;
pub use credential::{Credential, TENANT_PREFIX, TenantError};
pub use principal::{NoTenant, resolve_principal};
pub use space_entry::may_enter;
pub use token_file::{TokenFile, TokenFileError};

/// Returns bytes in hexadecimal.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
