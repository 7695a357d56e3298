//! Signature algorithms.

use std::fmt;
use std::str::FromStr;

use ring::signature::{self, EcdsaVerificationAlgorithm, RsaParameters};

/// An asymmetric signature algorithm. Symmetric ones and `none` are deliberately absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSA-PSS with SHA-256.
    Ps256,
}

/// The verification parameters of an algorithm.
pub(crate) enum Verification {
    P256(&'static EcdsaVerificationAlgorithm),
    P384(&'static EcdsaVerificationAlgorithm),
    Rsa(&'static RsaParameters),
}

/// The algorithm is unknown or not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tokens are signed with ES256, ES384, RS256, RS384, RS512 or PS256")]
pub struct UnknownAlgorithm;

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 6] = [
        Self::Es256,
        Self::Es384,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
    ];

    /// The name in the `alg` header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
        }
    }

    pub(crate) fn verification(self) -> Verification {
        match self {
            Self::Es256 => Verification::P256(&signature::ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Verification::P384(&signature::ECDSA_P384_SHA384_FIXED),
            Self::Rs256 => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
        }
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|known| known.name() == name)
            .ok_or(UnknownAlgorithm)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
