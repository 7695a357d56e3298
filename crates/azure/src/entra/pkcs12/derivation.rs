//! Keys that are derived from passwords.

use std::num::NonZeroU32;

use ring::digest::{self, Digest};
use ring::{hmac, pbkdf2};
use yasna::models::ObjectIdentifier;

use super::{Result, is};
use crate::entra::certificate::InvalidCertificate;

const SHA1: &[u64] = &[1, 3, 14, 3, 2, 26];
const SHA256: &[u64] = &[2, 16, 840, 1, 101, 3, 4, 2, 1];
const SHA384: &[u64] = &[2, 16, 840, 1, 101, 3, 4, 2, 2];
const SHA512: &[u64] = &[2, 16, 840, 1, 101, 3, 4, 2, 3];
const HMAC_SHA1: &[u64] = &[1, 2, 840, 113_549, 2, 7];
const HMAC_SHA256: &[u64] = &[1, 2, 840, 113_549, 2, 9];
const HMAC_SHA384: &[u64] = &[1, 2, 840, 113_549, 2, 10];
const HMAC_SHA512: &[u64] = &[1, 2, 840, 113_549, 2, 11];
/// The maximum number of repetitions for all keys of a file. Programs use 2,000 to 600,000 for one.
const MAX_ITERATIONS: u32 = 3_000_000;

/// The repetitions that are left for a file.
pub(super) struct Budget(u32);

impl Default for Budget {
    fn default() -> Self {
        Self(MAX_ITERATIONS)
    }
}

impl Budget {
    pub(super) fn spend(&mut self, iterations: u32) -> Result<()> {
        // Each derivation costs something, even with one repetition.
        let left = self.0.checked_sub(iterations.saturating_add(100));
        self.0 = left.ok_or(InvalidCertificate::UnsupportedEncryption)?;
        Ok(())
    }
}

/// A password in the forms that the derivations need.
pub(super) struct Password {
    text: Vec<u8>,
    /// UTF-16 in network order, with a zero at the end.
    wide: Vec<u8>,
}

impl Password {
    pub(super) fn new(text: &str) -> Self {
        let wide = text.encode_utf16().chain([0]).flat_map(u16::to_be_bytes);
        Self {
            text: text.as_bytes().to_vec(),
            wide: wide.collect(),
        }
    }

    /// Returns the password that is not even empty.
    pub(super) fn none() -> Self {
        Self {
            text: Vec::new(),
            wide: Vec::new(),
        }
    }
}

impl Drop for Password {
    fn drop(&mut self) {
        self.text.fill(0);
        self.wide.fill(0);
        std::hint::black_box((&self.text, &self.wide));
    }
}

/// What bytes are derived for.
#[derive(Clone, Copy)]
pub(super) enum Derivation {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// Salt and number of repetitions.
type Salt<'a> = (&'a [u8], u32);

/// Derives bytes with SHA-1, for the ciphers of PKCS#12.
pub(super) fn derive_pkcs12(
    purpose: Derivation,
    password: &Password,
    salt: Salt<'_>,
    length: usize,
) -> Vec<u8> {
    derive(
        &digest::SHA1_FOR_LEGACY_USE_ONLY,
        purpose,
        password,
        salt,
        length,
    )
}

/// Derives bytes as in appendix B.2 of RFC 7292.
fn derive(
    algorithm: &'static digest::Algorithm,
    purpose: Derivation,
    password: &Password,
    (salt, iterations): Salt<'_>,
    length: usize,
) -> Vec<u8> {
    let block = algorithm.block_len();
    let diversifier = vec![purpose as u8; block];
    let stretch = |bytes: &[u8]| -> Vec<u8> {
        let length = bytes.len().div_ceil(block) * block;
        bytes.iter().copied().cycle().take(length).collect()
    };
    let mut input = [stretch(salt), stretch(&password.wide)].concat();
    let mut derived = Vec::new();
    while derived.len() < length {
        let mut context = digest::Context::new(algorithm);
        context.update(&diversifier);
        context.update(&input);
        let mut hash: Digest = context.finish();
        for _ in 1..iterations.max(1) {
            hash = digest::digest(algorithm, hash.as_ref());
        }
        derived.extend_from_slice(hash.as_ref());
        let added: Vec<u8> = hash.as_ref().iter().copied().cycle().take(block).collect();
        for chunk in input.chunks_mut(block) {
            add_with_one(chunk, &added);
        }
    }
    derived.truncate(length);
    derived
}

/// Adds a number and one to a number of the same length, both in network order.
fn add_with_one(number: &mut [u8], added: &[u8]) {
    let mut carry = 1;
    for (digit, added) in number.iter_mut().zip(added).rev() {
        let sum = u16::from(*digit) + u16::from(*added) + carry;
        *digit = sum.to_be_bytes()[1];
        carry = sum >> 8;
    }
}

/// Derives a key with PBKDF2. Without a digest it is SHA-1.
pub(super) fn derive_pbkdf2(
    hmac: Option<&ObjectIdentifier>,
    password: &Password,
    (salt, iterations): Salt<'_>,
    length: usize,
) -> Result<Vec<u8>> {
    let algorithms = [
        (HMAC_SHA1, pbkdf2::PBKDF2_HMAC_SHA1),
        (HMAC_SHA256, pbkdf2::PBKDF2_HMAC_SHA256),
        (HMAC_SHA384, pbkdf2::PBKDF2_HMAC_SHA384),
        (HMAC_SHA512, pbkdf2::PBKDF2_HMAC_SHA512),
    ];
    let is_named = |kind: &[u64]| hmac.map_or(kind == HMAC_SHA1, |named| is(named, kind));
    let algorithm = algorithms.iter().find(|(kind, _)| is_named(kind));
    let (_, algorithm) = algorithm.ok_or(InvalidCertificate::UnsupportedEncryption)?;
    let iterations = NonZeroU32::new(iterations).ok_or(InvalidCertificate::Damaged)?;
    let mut key = vec![0; length];
    pbkdf2::derive(*algorithm, iterations, salt, &password.text, &mut key);
    Ok(key)
}

/// Returns whether the code of a file is that of its contents and this password.
pub(super) fn verify_mac(
    digest: &ObjectIdentifier,
    password: &Password,
    salt: Salt<'_>,
    contents: &[u8],
    code: &[u8],
    budget: &mut Budget,
) -> Result<bool> {
    let algorithms = [
        (
            SHA1,
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        ),
        (SHA256, &digest::SHA256, hmac::HMAC_SHA256),
        (SHA384, &digest::SHA384, hmac::HMAC_SHA384),
        (SHA512, &digest::SHA512, hmac::HMAC_SHA512),
    ];
    let algorithm = algorithms.iter().find(|(kind, ..)| is(digest, kind));
    let (_, hash, mac) = algorithm.ok_or(InvalidCertificate::UnsupportedEncryption)?;
    budget.spend(salt.1)?;
    let key = derive(hash, Derivation::Mac, password, salt, hash.output_len());
    let key = hmac::Key::new(*mac, &key);
    Ok(hmac::verify(&key, contents, code).is_ok())
}
