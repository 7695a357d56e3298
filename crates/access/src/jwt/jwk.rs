//! Keys as JSON.

use serde::{Deserialize, Serialize};

/// Keys as an issuer publishes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Jwks {
    /// Each of them.
    pub keys: Vec<Jwk>,
}

/// A public key as a provider publishes it, and as we publish ours. Members that say
/// nothing about verifying are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    /// What it is for: `sig`.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// The type: `RSA` or `EC`.
    pub kty: String,
    /// What tokens call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// The curve of an EC key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crv: Option<String>,
    /// The one algorithm that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// An EC key's point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// An EC key's point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// An RSA key's modulus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<String>,
    /// An RSA key's exponent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e: Option<String>,
    /// What else it is for: `verify` must be there if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ops: Option<Vec<String>>,
}
