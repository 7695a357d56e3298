//! Decryption with a password: the ciphers of PKCS#12, and those of PKCS#5 (PBES2).

use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Result, BERReader};

use super::derivation::{Budget, Derivation, Password, derive_pbkdf2, derive_pkcs12};
use super::{Result, is};
use crate::entra::certificate::InvalidCertificate;

const TRIPLE_DES_PKCS12: &[u64] = &[1, 2, 840, 113_549, 1, 12, 1, 3];
const RC2_128_PKCS12: &[u64] = &[1, 2, 840, 113_549, 1, 12, 1, 5];
const RC2_40_PKCS12: &[u64] = &[1, 2, 840, 113_549, 1, 12, 1, 6];
const PBES2: &[u64] = &[1, 2, 840, 113_549, 1, 5, 13];
const PBKDF2: &[u64] = &[1, 2, 840, 113_549, 1, 5, 12];
const AES_128: &[u64] = &[2, 16, 840, 1, 101, 3, 4, 1, 2];
const AES_192: &[u64] = &[2, 16, 840, 1, 101, 3, 4, 1, 22];
const AES_256: &[u64] = &[2, 16, 840, 1, 101, 3, 4, 1, 42];
const TRIPLE_DES: &[u64] = &[1, 2, 840, 113_549, 3, 7];
/// The block size of DES and RC2.
const SMALL_BLOCK: usize = 8;

/// An algorithm with its parameters in DER.
pub(super) struct Algorithm {
    pub(super) kind: ObjectIdentifier,
    parameters: Vec<u8>,
}

pub(super) fn read_algorithm(reader: BERReader<'_, '_>) -> ASN1Result<Algorithm> {
    reader.read_sequence(|reader| {
        let kind = reader.next().read_oid()?;
        let parameters = reader.read_optional(|reader| reader.read_der())?;
        Ok(Algorithm {
            kind,
            parameters: parameters.unwrap_or_default(),
        })
    })
}

/// A block cipher in CBC mode.
#[derive(Clone, Copy)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
    TripleDes,
    Rc2,
}

impl Cipher {
    fn decrypt(self, key: &[u8], iv: &[u8], data: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Aes128 => decrypt_with::<Decryptor<aes::Aes128>>(key, iv, data),
            Self::Aes192 => decrypt_with::<Decryptor<aes::Aes192>>(key, iv, data),
            Self::Aes256 => decrypt_with::<Decryptor<aes::Aes256>>(key, iv, data),
            Self::TripleDes => decrypt_with::<Decryptor<des::TdesEde3>>(key, iv, data),
            Self::Rc2 => decrypt_with::<Decryptor<rc2::Rc2>>(key, iv, data),
        }
    }
}

fn decrypt_with<D: BlockModeDecrypt + KeyIvInit>(
    key: &[u8],
    iv: &[u8],
    data: &[u8],
) -> Result<Vec<u8>> {
    let decryptor = D::new_from_slices(key, iv).map_err(|_| InvalidCertificate::Damaged)?;
    // A wrong password shows as wrong padding.
    let plain = decryptor.decrypt_padded_vec::<Pkcs7>(data);
    plain.map_err(|_| InvalidCertificate::WrongPassword)
}

/// Decrypts data.
pub(super) fn decrypt(
    algorithm: &Algorithm,
    data: &[u8],
    password: &Password,
    budget: &mut Budget,
) -> Result<Vec<u8>> {
    if is(&algorithm.kind, PBES2) {
        return decrypt_pbes2(&algorithm.parameters, data, password, budget);
    }
    let ciphers = [
        (TRIPLE_DES_PKCS12, Cipher::TripleDes, 24),
        (RC2_128_PKCS12, Cipher::Rc2, 16),
        (RC2_40_PKCS12, Cipher::Rc2, 5),
    ];
    let cipher = ciphers.iter().find(|(kind, ..)| is(&algorithm.kind, kind));
    let (_, cipher, key_length) = cipher.ok_or(InvalidCertificate::UnsupportedEncryption)?;
    let (salt, iterations) = yasna::parse_der(&algorithm.parameters, |reader| {
        reader.read_sequence(|reader| Ok((reader.next().read_bytes()?, reader.next().read_u32()?)))
    })?;
    budget.spend(iterations)?;
    budget.spend(iterations)?;
    let salt = (salt.as_slice(), iterations);
    let key = derive_pkcs12(Derivation::Key, password, salt, *key_length);
    let iv = derive_pkcs12(Derivation::Iv, password, salt, SMALL_BLOCK);
    cipher.decrypt(&key, &iv, data)
}

/// Decrypts data with a key of PBKDF2, as programs of today do.
fn decrypt_pbes2(
    parameters: &[u8],
    data: &[u8],
    password: &Password,
    budget: &mut Budget,
) -> Result<Vec<u8>> {
    let (derivation, encryption) = yasna::parse_der(parameters, |reader| {
        reader.read_sequence(|reader| {
            Ok((
                read_algorithm(reader.next())?,
                read_algorithm(reader.next())?,
            ))
        })
    })?;
    let ciphers = [
        (AES_128, Cipher::Aes128, 16),
        (AES_192, Cipher::Aes192, 24),
        (AES_256, Cipher::Aes256, 32),
        (TRIPLE_DES, Cipher::TripleDes, 24),
    ];
    let cipher = ciphers.iter().find(|(kind, ..)| is(&encryption.kind, kind));
    let (_, cipher, key_length) = cipher.ok_or(InvalidCertificate::UnsupportedEncryption)?;
    if !is(&derivation.kind, PBKDF2) {
        return Err(InvalidCertificate::UnsupportedEncryption);
    }
    let (salt, iterations, digest) = yasna::parse_der(&derivation.parameters, |reader| {
        reader.read_sequence(|reader| {
            let salt = reader.next().read_bytes()?;
            let iterations = reader.next().read_u32()?;
            reader.read_optional(|length| length.read_u32())?;
            let digest = reader.read_optional(read_algorithm)?;
            Ok((salt, iterations, digest))
        })
    })?;
    budget.spend(iterations)?;
    let digest = digest.map(|algorithm| algorithm.kind);
    let key = derive_pbkdf2(digest.as_ref(), password, (&salt, iterations), *key_length)?;
    let iv = yasna::parse_der(&encryption.parameters, |reader| reader.read_bytes())?;
    cipher.decrypt(&key, &iv, data)
}
