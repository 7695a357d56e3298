//! The messages of `v2.KeyManagementService`, and the paths of its methods.
//!
//! Written by hand: five small messages need no generator. Public for plugins in tests.

use std::collections::BTreeMap;

/// The path of the method that reports the plugin's health and current key.
pub const STATUS_PATH: &str = "/v2.KeyManagementService/Status";
/// The path of the method that encrypts with the current key.
pub const ENCRYPT_PATH: &str = "/v2.KeyManagementService/Encrypt";
/// The path of the method that decrypts with the named key.
pub const DECRYPT_PATH: &str = "/v2.KeyManagementService/Decrypt";

/// The request of Status.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StatusRequest {}

/// The response of Status.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StatusResponse {
    /// The version of the protocol.
    #[prost(string, tag = "1")]
    pub version: String,
    /// `ok`, or the problem.
    #[prost(string, tag = "2")]
    pub healthz: String,
    /// The key that the plugin encrypts with now.
    #[prost(string, tag = "3")]
    pub key_id: String,
}

/// The request of Encrypt.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EncryptRequest {
    /// The data to encrypt.
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
    /// Identifies the request in the plugin's logs.
    #[prost(string, tag = "2")]
    pub uid: String,
}

/// The response of Encrypt.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EncryptResponse {
    /// The encrypted data.
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    /// The key that encrypted it.
    #[prost(string, tag = "2")]
    pub key_id: String,
    /// Data that the plugin needs to decrypt; stored in the clear.
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// The request of Decrypt.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DecryptRequest {
    /// The data to decrypt.
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    /// Identifies the request in the plugin's logs.
    #[prost(string, tag = "2")]
    pub uid: String,
    /// The key that encrypted the data.
    #[prost(string, tag = "3")]
    pub key_id: String,
    /// The annotations of the response of Encrypt.
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// The response of Decrypt.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DecryptResponse {
    /// The decrypted data.
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
}
