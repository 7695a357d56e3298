//! A client of Kubernetes' KMS v2 plugins.
//!
//! A plugin encrypts and decrypts small keys with a key that it does not hand out. It listens on a
//! unix socket of the same machine and serves the gRPC service `v2.KeyManagementService`, so every
//! plugin that was written for kube-apiserver works here. The rules for its answers are
//! kube-apiserver's too (`validate.rs`).

mod endpoint;
mod error;
mod plugin;
mod validate;
pub mod wire;

pub use crate::error::{Error, ErrorKind, Result};
pub use crate::plugin::{DEFAULT_TIMEOUT, Encrypted, KmsPlugin, Status};
pub use crate::validate::{MAX_ANNOTATIONS_BYTES, MAX_CIPHERTEXT_BYTES, MAX_KEY_ID_BYTES};
