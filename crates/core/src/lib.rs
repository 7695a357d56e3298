//! The shared types of Insula, without I/O.
//!
//! All other crates of the server use these types. Nothing here opens a file or a socket or reads a
//! clock, and nothing here knows HTTP, a storage engine or a provider.

mod layout;
mod principal;
mod revision;
mod space;
mod verb;

pub use layout::{Layout, Place, ResourceName};
pub use principal::{
    AUTHENTICATED, CREDENTIAL_ID, CredentialRef, Extra, MASTERS, NODE_USER_PREFIX, NODES,
    Principal, Proof, RESERVED_PREFIX, TenantBinding, node_name,
};
pub use revision::{ParseRevisionError, Revision};
pub use space::{ALL, NotATenantName, SYSTEM, Space, Spaces, TenantName};
pub use verb::Verb;
