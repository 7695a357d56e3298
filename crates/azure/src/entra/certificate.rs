//! Client certificates with their keys, as PEM or PKCS#12.

use std::fmt;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use insula_identity::credential::Hidden;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PSS_SHA256, RsaKeyPair};
use serde_json::json;

use super::pkcs12;

/// How long an assertion is valid. Clocks may differ by some minutes.
const ASSERTION_SECONDS: i64 = 600;
const CLOCK_SKEW_SECONDS: i64 = 300;
/// The maximum size of a certificate file in bytes.
const MAX_BYTES: usize = 256 << 10;

/// A certificate with its private key.
pub struct ClientCertificate {
    key: RsaKeyPair,
    /// The SHA-256 digest of the certificate, in base64.
    thumbprint: String,
}

/// Why a certificate cannot be used. The messages have nothing of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCertificate {
    /// The file is neither PEM nor PKCS#12.
    #[error("it is neither PEM nor PKCS#12")]
    UnknownFormat,
    /// The file is too large.
    #[error("it is too large")]
    TooLarge,
    /// The file has no private key.
    #[error("it has no private key")]
    NoKey,
    /// The key is of a sort that Entra ID does not accept.
    #[error("its key is not an RSA key of 2048 to 4096 bits")]
    UnsupportedKey,
    /// No certificate belongs to the key.
    #[error("it has no certificate of its key")]
    NoCertificate,
    /// The password is wrong or missing.
    #[error("AZURE_CLIENT_CERTIFICATE_PASSWORD does not fit")]
    WrongPassword,
    /// The file uses an algorithm that is not supported.
    #[error("it is encrypted with an algorithm that is not supported")]
    UnsupportedEncryption,
    /// The file is damaged.
    #[error("it is damaged")]
    Damaged,
    /// The key cannot sign.
    #[error("its key cannot sign")]
    CannotSign,
}

/// The certificates and keys of a file, in DER.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) certificates: Vec<Vec<u8>>,
    /// Keys in PKCS#8 or PKCS#1.
    pub(super) keys: Vec<Hidden>,
}

impl ClientCertificate {
    /// Reads a file: PEM, or PKCS#12 as it is or in base64. It takes up to a second, because the
    /// key of PKCS#12 is derived slowly.
    ///
    /// # Errors
    ///
    /// If the file has no RSA key with its certificate.
    pub fn parse(file: &[u8], password: Option<&Hidden>) -> Result<Self, InvalidCertificate> {
        if file.len() > MAX_BYTES {
            return Err(InvalidCertificate::TooLarge);
        }
        let password = password.and_then(Hidden::text).unwrap_or_default();
        let parts = match file.windows(5).any(|window| window == b"-----") {
            true => read_pem(file, password)?,
            false => read_pkcs12(file, password)?,
        };
        parts.select()
    }

    /// Returns an assertion for a token endpoint: a JWT signed with PS256.
    ///
    /// # Errors
    ///
    /// If the key cannot sign.
    pub fn assertion(
        &self,
        token_url: &str,
        client_id: &str,
        now: Timestamp,
    ) -> Result<Hidden, InvalidCertificate> {
        let header = json!({"alg": "PS256", "typ": "JWT", "x5t#S256": self.thumbprint});
        let now = now.as_second();
        let claims = json!({
            "aud": token_url,
            "iss": client_id,
            "sub": client_id,
            "jti": uuid::Uuid::new_v4().to_string(),
            "nbf": now - CLOCK_SKEW_SECONDS,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
        });
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let signed = [&header, &claims]
            .map(|part| encode(part.to_string().as_bytes()))
            .join(".");
        let mut signature = vec![0; self.key.public().modulus_len()];
        let random = SystemRandom::new();
        let done = self
            .key
            .sign(&RSA_PSS_SHA256, &random, signed.as_bytes(), &mut signature);
        done.map_err(|_| InvalidCertificate::CannotSign)?;
        Ok(Hidden::new(format!("{signed}.{}", encode(&signature))))
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClientCertificate")
            .finish_non_exhaustive()
    }
}

impl Parts {
    /// Returns the key and the certificate with the same public key. A file may have those of
    /// authorities too.
    fn select(self) -> Result<ClientCertificate, InvalidCertificate> {
        let parse = |key: &Hidden| {
            let bytes = key.reveal();
            let pkcs8 = RsaKeyPair::from_pkcs8(bytes);
            pkcs8.or_else(|_| RsaKeyPair::from_der(bytes)).ok()
        };
        if self.keys.is_empty() {
            return Err(InvalidCertificate::NoKey);
        }
        let mut keys = self.keys.iter().filter_map(parse);
        let key = keys.next().ok_or(InvalidCertificate::UnsupportedKey)?;
        let public = key.public().as_ref().to_vec();
        // A certificate contains its public key as it is encoded here.
        let is_of_key = |certificate: &&Vec<u8>| {
            let mut windows = certificate.windows(public.len());
            windows.any(|window| window == public)
        };
        let certificate = self.certificates.iter().find(is_of_key);
        let certificate = certificate.ok_or(InvalidCertificate::NoCertificate)?;
        let thumbprint = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, certificate));
        Ok(ClientCertificate { key, thumbprint })
    }
}

fn read_pem(file: &[u8], password: &str) -> Result<Parts, InvalidCertificate> {
    let blocks = pem::parse_many(file).map_err(|_| InvalidCertificate::Damaged)?;
    let mut parts = Parts::default();
    for block in blocks {
        match block.tag() {
            "CERTIFICATE" => parts.certificates.push(block.into_contents()),
            "PRIVATE KEY" | "RSA PRIVATE KEY" => {
                parts.keys.push(Hidden::new(block.into_contents()));
            }
            "ENCRYPTED PRIVATE KEY" => {
                let key = pkcs12::decrypt_key(block.contents(), password)?;
                parts.keys.push(key);
            }
            _ => {}
        }
    }
    Ok(parts)
}

fn read_pkcs12(file: &[u8], password: &str) -> Result<Parts, InvalidCertificate> {
    /// The first byte of PKCS#12: an ASN.1 sequence.
    const SEQUENCE: u8 = 0x30;
    let text = str::from_utf8(file).unwrap_or_default();
    let text: String = text.split_ascii_whitespace().collect();
    let decoded = Hidden::new(BASE64_STANDARD.decode(text).unwrap_or_default());
    let candidates = [decoded.reveal(), file];
    let mut files = candidates
        .iter()
        .filter(|file| file.first() == Some(&SEQUENCE));
    let file = files.next().ok_or(InvalidCertificate::UnknownFormat)?;
    pkcs12::read(file, password)
}

#[cfg(test)]
mod tests;
