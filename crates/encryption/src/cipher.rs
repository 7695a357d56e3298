//! Authenticated encryption under long-lived keys.
//!
//! AES-256-GCM must never see a nonce twice under one key, and random 96-bit nonces are safe for
//! about 2^32 messages only. A data key lives as long as its tenant, so it encrypts nothing itself:
//! each message gets a key of its own, derived by HKDF-SHA256 from the long-lived key and a random
//! salt of 192 bits. Two of n messages share a salt with probability n²/2^193: 2^-65 after 2^64
//! messages. The derived key is used once, so its nonce is constant.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// The length of generated keys.
pub const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 24;

/// The bytes that sealing adds to a message.
#[cfg(test)]
pub const OVERHEAD_BYTES: usize = SALT_BYTES + 16;

/// A long-lived key.
pub struct Cipher(Prk);

/// The message was not sealed with this key for this purpose, or was changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it was not sealed with this key for this place")]
pub struct NotAuthentic;

/// The operating system returned no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system returned no random bytes")]
pub struct NoRandomness;

impl Cipher {
    /// Creates a cipher from a secret. Ciphers of different purposes do not read each other's
    /// messages, even with the same secret.
    pub fn new(purpose: &'static str, secret: &[u8]) -> Self {
        Self(Salt::new(HKDF_SHA256, purpose.as_bytes()).extract(secret))
    }

    /// Appends the sealed message to `output`. It opens only with the same associated data.
    pub fn seal(
        &self,
        associated: &[u8],
        message: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), NoRandomness> {
        let mut salt = [0; SALT_BYTES];
        fill(&mut salt)?;
        output.extend_from_slice(&salt);
        let start = output.len();
        output.extend_from_slice(message);
        // Both fail for lengths only that do not occur here.
        let key = self.derive(&salt).map_err(|_| NoRandomness)?;
        let tag = key
            .seal_in_place_separate_tag(nonce(), Aad::from(associated), &mut output[start..])
            .map_err(|_| NoRandomness)?;
        output.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Opens a sealed message.
    pub fn open(&self, associated: &[u8], sealed: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        let (salt, sealed) = sealed
            .split_first_chunk::<SALT_BYTES>()
            .ok_or(NotAuthentic)?;
        let key = self.derive(salt)?;
        let mut message = sealed.to_vec();
        let opened = key
            .open_in_place(nonce(), Aad::from(associated), &mut message)
            .map_err(|_| NotAuthentic)?;
        let length = opened.len();
        message.truncate(length);
        Ok(message)
    }

    fn derive(&self, salt: &[u8; SALT_BYTES]) -> Result<LessSafeKey, NotAuthentic> {
        let info = [&salt[..]];
        let derived = self
            .0
            .expand(&info, &AES_256_GCM)
            .map_err(|_| NotAuthentic)?;
        Ok(LessSafeKey::new(UnboundKey::from(derived)))
    }
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher(..)")
    }
}

/// Generates a key.
pub fn generate_key() -> Result<Zeroizing<[u8; KEY_BYTES]>, NoRandomness> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    fill(&mut *key)?;
    Ok(key)
}

fn fill(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    SystemRandom::new().fill(bytes).map_err(|_| NoRandomness)
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(cipher: &Cipher, associated: &[u8], message: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        cipher.seal(associated, message, &mut output).unwrap();
        output
    }

    proptest! {
        #[test]
        fn message_opens_only_with_its_key_purpose_and_associated_data(
            secret: [u8; 32],
            other: [u8; 32],
            message: Vec<u8>,
            associated: Vec<u8>,
            flipped: prop::sample::Index,
        ) {
            prop_assume!(secret != other);
            let cipher = Cipher::new("a", &secret);
            let sealed = sealed(&cipher, &associated, &message);
            prop_assert_eq!(sealed.len(), message.len() + OVERHEAD_BYTES);
            prop_assert_eq!(cipher.open(&associated, &sealed), Ok(message));
            prop_assert_eq!(Cipher::new("a", &other).open(&associated, &sealed), Err(NotAuthentic));
            prop_assert_eq!(Cipher::new("b", &secret).open(&associated, &sealed), Err(NotAuthentic));
            let mut elsewhere = associated.clone();
            elsewhere.push(0);
            prop_assert_eq!(cipher.open(&elsewhere, &sealed), Err(NotAuthentic));
            let mut damaged = sealed.clone();
            damaged[flipped.index(sealed.len())] ^= 1;
            prop_assert_eq!(cipher.open(&associated, &damaged), Err(NotAuthentic));
            prop_assert_eq!(cipher.open(&associated, &sealed[..sealed.len() / 2]), Err(NotAuthentic));
        }
    }

    #[test]
    fn same_message_is_sealed_differently_each_time() {
        let cipher = Cipher::new("a", &[7; 32]);
        assert_ne!(sealed(&cipher, b"k", b"m"), sealed(&cipher, b"k", b"m"));
    }
}
