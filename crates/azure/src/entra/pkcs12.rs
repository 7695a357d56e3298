//! Files of PKCS#12 (RFC 7292), in DER: the certificates and keys that programs export.
//!
//! Tenants choose the file, and with it how often its key derivation is repeated. The number of
//! repetitions in a file is bounded, so that reading one cannot occupy a processor.

mod cipher;
mod derivation;

use insula_identity::credential::Hidden;
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, Tag};

use self::cipher::{Algorithm, decrypt, read_algorithm};
use self::derivation::{Budget, Password, verify_mac};
use super::certificate::{InvalidCertificate, Parts};

const DATA: &[u64] = &[1, 2, 840, 113_549, 1, 7, 1];
const ENCRYPTED_DATA: &[u64] = &[1, 2, 840, 113_549, 1, 7, 6];
const KEY_BAG: &[u64] = &[1, 2, 840, 113_549, 1, 12, 10, 1, 1];
const SHROUDED_KEY_BAG: &[u64] = &[1, 2, 840, 113_549, 1, 12, 10, 1, 2];
const CERTIFICATE_BAG: &[u64] = &[1, 2, 840, 113_549, 1, 12, 10, 1, 3];
const X509_CERTIFICATE: &[u64] = &[1, 2, 840, 113_549, 1, 9, 22, 1];
const VERSION: u8 = 3;

type Result<T> = std::result::Result<T, InvalidCertificate>;

impl From<ASN1Error> for InvalidCertificate {
    fn from(_: ASN1Error) -> Self {
        Self::Damaged
    }
}

/// The message authentication code of a file.
struct Mac {
    digest: ObjectIdentifier,
    code: Vec<u8>,
    salt: Vec<u8>,
    iterations: u32,
}

/// A part of a file: its type, and its content in DER.
struct ContentInfo {
    kind: ObjectIdentifier,
    content: Vec<u8>,
}

/// Reads the certificates and keys of a file.
pub(super) fn read(file: &[u8], password: &str) -> Result<Parts> {
    let (safe, mac) = yasna::parse_der(file, |reader| {
        reader.read_sequence(|reader| {
            if reader.next().read_u8()? != VERSION {
                return Err(ASN1Error::new(ASN1ErrorKind::Invalid));
            }
            let safe = read_content(reader.next())?;
            let mac = reader.read_optional(read_mac)?;
            Ok((safe, mac))
        })
    })?;
    // A file that is protected by a signature instead of a password is not supported.
    if !is(&safe.kind, DATA) {
        return Err(InvalidCertificate::UnsupportedEncryption);
    }
    let safe = octets(&safe.content)?;
    let mut budget = Budget::default();
    let password = match mac {
        Some(mac) => mac.find_password(&safe, password, &mut budget)?,
        None => Password::new(password),
    };
    let contents = yasna::parse_der(&safe, |reader| reader.collect_sequence_of(read_content))?;
    let mut parts = Parts::default();
    for content in contents {
        let bags = if is(&content.kind, DATA) {
            octets(&content.content)?
        } else if is(&content.kind, ENCRYPTED_DATA) {
            let (algorithm, data) = read_encrypted_data(&content.content)?;
            decrypt(&algorithm, &data, &password, &mut budget)?
        } else {
            return Err(InvalidCertificate::UnsupportedEncryption);
        };
        let bags = yasna::parse_der(&bags, |reader| reader.collect_sequence_of(read_bag))?;
        for bag in bags {
            read_parts(&bag, &password, &mut budget, &mut parts)?;
        }
    }
    Ok(parts)
}

/// Decrypts a key as PEM files and PKCS#12 have it.
pub(super) fn decrypt_key(der: &[u8], password: &str) -> Result<Hidden> {
    decrypt_shrouded(der, &Password::new(password), &mut Budget::default())
}

fn decrypt_shrouded(der: &[u8], password: &Password, budget: &mut Budget) -> Result<Hidden> {
    let (algorithm, data) = yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            let algorithm = read_algorithm(reader.next())?;
            Ok((algorithm, reader.next().read_bytes()?))
        })
    })?;
    decrypt(&algorithm, &data, password, budget).map(Hidden::new)
}

impl Mac {
    /// Returns the password in the form that the file was made with. Programs disagree about the
    /// form of an empty one.
    fn find_password(&self, safe: &[u8], text: &str, budget: &mut Budget) -> Result<Password> {
        let mut candidates = vec![Password::new(text)];
        if text.is_empty() {
            candidates.push(Password::none());
        }
        for password in candidates {
            let salt = (self.salt.as_slice(), self.iterations);
            if verify_mac(&self.digest, &password, salt, safe, &self.code, budget)? {
                return Ok(password);
            }
        }
        Err(InvalidCertificate::WrongPassword)
    }
}

/// Adds the certificate or key of a bag to the parts. Other bags are of no use here.
fn read_parts(
    bag: &ContentInfo,
    password: &Password,
    budget: &mut Budget,
    parts: &mut Parts,
) -> Result<()> {
    if is(&bag.kind, KEY_BAG) {
        parts.keys.push(Hidden::new(bag.content.clone()));
    } else if is(&bag.kind, SHROUDED_KEY_BAG) {
        parts
            .keys
            .push(decrypt_shrouded(&bag.content, password, budget)?);
    } else if is(&bag.kind, CERTIFICATE_BAG) {
        let certificate = yasna::parse_der(&bag.content, read_content)?;
        if is(&certificate.kind, X509_CERTIFICATE) {
            parts.certificates.push(octets(&certificate.content)?);
        }
    }
    Ok(())
}

/// Reads a type and its explicitly tagged content.
fn read_content(reader: BERReader<'_, '_>) -> ASN1Result<ContentInfo> {
    reader.read_sequence(|reader| {
        let kind = reader.next().read_oid()?;
        let content = reader.next();
        let content = content.read_tagged(Tag::context(0), |reader| reader.read_der())?;
        Ok(ContentInfo { kind, content })
    })
}

/// Reads a bag, which is a content with optional attributes.
fn read_bag(reader: BERReader<'_, '_>) -> ASN1Result<ContentInfo> {
    reader.read_sequence(|reader| {
        let kind = reader.next().read_oid()?;
        let content = reader.next();
        let content = content.read_tagged(Tag::context(0), |reader| reader.read_der())?;
        reader.read_optional(|attributes| attributes.read_der())?;
        Ok(ContentInfo { kind, content })
    })
}

fn read_encrypted_data(der: &[u8]) -> ASN1Result<(Algorithm, Vec<u8>)> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            reader.next().read_u8()?;
            reader.next().read_sequence(|reader| {
                reader.next().read_oid()?;
                let algorithm = read_algorithm(reader.next())?;
                let data = reader.next();
                let data = data.read_tagged_implicit(Tag::context(0), |data| data.read_bytes())?;
                Ok((algorithm, data))
            })
        })
    })
}

fn read_mac(reader: BERReader<'_, '_>) -> ASN1Result<Mac> {
    reader.read_sequence(|reader| {
        let (digest, code) = reader.next().read_sequence(|reader| {
            let algorithm = read_algorithm(reader.next())?;
            Ok((algorithm.kind, reader.next().read_bytes()?))
        })?;
        let salt = reader.next().read_bytes()?;
        let iterations = reader.read_default(1, |reader| reader.read_u32())?;
        Ok(Mac {
            digest,
            code,
            salt,
            iterations,
        })
    })
}

fn octets(der: &[u8]) -> Result<Vec<u8>> {
    Ok(yasna::parse_der(der, |reader| reader.read_bytes())?)
}

fn is(kind: &ObjectIdentifier, expected: &[u64]) -> bool {
    kind.components() == expected
}
