//! The contents of metadata and network data Secrets.
//!
//! | module | content |
//! |---|---|
//! | [`index`] | the index of a machine among those of one template |
//! | [`pools`] | the pools that a template needs an address of |
//! | [`sources`] | the objects that values come from |
//! | [`metadata`] | metadata |
//! | [`network`] | network data, in the format of OpenStack |
//! | [`secret`] | names and keys of the Secrets |
//! | `yaml` | YAML text |

pub mod index;
pub mod metadata;
pub mod network;
pub mod pools;
pub mod secret;
pub mod sources;
#[cfg(test)]
mod tests;
mod yaml;
