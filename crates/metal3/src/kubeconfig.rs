//! The kubeconfig in a Secret that `identityRef` names.
//!
//! | module | content |
//! |---|---|
//! | [`resolve`] | which `identityRef` counts, and what is asked about it |
//! | [`reason`] | reasons of conditions |
//! | `shape` | the contents of the Secret, for the decision about credentials |
//! | `file` | the YAML of a kubeconfig |
//! | `outside` | fields that refer to something outside of the kubeconfig, which are refused |
//! | `select` | the context that is used, with its cluster and user |
//! | `server` | the URL of the API server |
//! | `access` | what a client of the host side is made from |
//! | `invalid` | why a kubeconfig is refused |
//!
//! A kubeconfig is the input of a tenant. It is read as data: no program is run, no file is opened,
//! and no message repeats what it contains, except names of contexts.

mod access;
mod file;
mod invalid;
mod outside;
pub mod reason;
pub mod resolve;
mod select;
mod server;
mod shape;
#[cfg(test)]
mod tests;

pub use access::{
    Authentication, ClientCertificate, HostAccess, HostCertificates, Impersonation, Verification,
};
pub use file::MAX_BYTES;
pub use invalid::{InvalidKubeconfig, Place};
pub use server::Server;
pub use shape::{KEYS, Kubeconfig, reserved_name};
