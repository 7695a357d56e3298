//! JSON Web Keys.

use serde::{Deserialize, Serialize};

/// A JSON Web Key Set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Jwks {
    /// The keys.
    pub keys: Vec<Jwk>,
}

/// A public key as providers publish it, and as this server publishes its own. Members that
/// do not matter for verification are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    /// The intended use: `sig`.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// The type: `RSA` or `EC`.
    pub kty: String,
    /// The key ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// The curve of an EC key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crv: Option<String>,
    /// The only algorithm that the key is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// The x coordinate of an EC key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// The y coordinate of an EC key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// An RSA key's modulus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<String>,
    /// An RSA key's exponent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e: Option<String>,
    /// The permitted operations: if present, they must include `verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ops: Option<Vec<String>>,
}
