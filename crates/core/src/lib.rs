//! The nouns of Insula, without I/O.
//!
//! Every other crate speaks in these types. Nothing here opens a file, a socket
//! or a clock, and nothing here knows HTTP, a storage engine or a provider.

mod layout;
mod principal;
mod revision;
mod space;
mod verb;

pub use layout::{Layout, Place, ResourceName};
pub use principal::{
    AUTHENTICATED, CREDENTIAL_ID, Extra, MASTERS, Principal, Proof, RESERVED_PREFIX, TenantBinding,
};
pub use revision::{ParseRevisionError, Revision};
pub use space::{ALL, NotATenantName, SYSTEM, Space, Spaces, TenantName};
pub use verb::Verb;
