//! Public keys that verify tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rsa::PublicKeyComponents;
use ring::signature::UnparsedPublicKey;
use x509_parser::asn1_rs::{FromDer, Oid, oid};
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::algorithm::{Algorithm, Verification};
use super::jwk::Jwk;
use super::{Error, Signed};

/// A public key with its ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    id: Option<String>,
    /// The only algorithm that the key is for. If `None`, any that its type supports.
    only: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa(Rsa),
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
}

/// An RSA key: big-endian numbers without leading zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rsa {
    modulus: Vec<u8>,
    exponent: Vec<u8>,
}

/// The key cannot verify tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is neither an RSA key of 2048 to 8192 bits nor a key on P-256 or P-384")]
pub struct NotAPublicKey;

const EC: Oid<'static> = oid!(1.2.840.10045.2.1);
const P256: Oid<'static> = oid!(1.2.840.10045.3.1.7);
const P384: Oid<'static> = oid!(1.3.132.0.34);

/// The DER prefix of a P-256 key, before the 65 bytes of its point.
const P256_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

impl PublicKey {
    /// Parses a key in PEM (`PUBLIC KEY`). Its ID is derived as in Kubernetes.
    pub fn from_pem(pem: &str) -> Result<Self, NotAPublicKey> {
        let pem = pem::parse(pem).map_err(|_| NotAPublicKey)?;
        if pem.tag() != "PUBLIC KEY" {
            return Err(NotAPublicKey);
        }
        Self::from_der(pem.contents())
    }

    /// Parses a `SubjectPublicKeyInfo` in DER. Its ID is derived as in Kubernetes.
    pub fn from_der(der: &[u8]) -> Result<Self, NotAPublicKey> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| NotAPublicKey)?;
        if !rest.is_empty() {
            return Err(NotAPublicKey);
        }
        let material = match info.parsed().map_err(|_| NotAPublicKey)? {
            Parsed::RSA(key) => Material::rsa(key.modulus, key.exponent),
            Parsed::EC(point) if info.algorithm.algorithm == EC => {
                let curve = info.algorithm.parameters.as_ref();
                let curve = curve.and_then(|curve| curve.as_oid().ok());
                match curve {
                    Some(curve) if curve == P256 => Material::point(Curve::P256, point.data()),
                    Some(curve) if curve == P384 => Material::point(Curve::P384, point.data()),
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(Self {
            id: Some(id_of(der)),
            only: None,
            material: material.ok_or(NotAPublicKey)?,
        })
    }

    /// The key of a point on P-256.
    pub(super) fn from_p256(point: &[u8]) -> Result<Self, NotAPublicKey> {
        Self::from_der(&[&P256_HEAD, point].concat())
    }

    /// Reads a published key, if it is for verification and of a supported type.
    pub fn from_jwk(jwk: &Jwk) -> Result<Self, NotAPublicKey> {
        let signs = jwk.purpose.as_deref().is_none_or(|of| of == "sig");
        let operations = jwk.key_ops.as_deref();
        let verifies = operations.is_none_or(|all| all.iter().any(|one| one == "verify"));
        if !signs || !verifies {
            return Err(NotAPublicKey);
        }
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Material::rsa(&number(&jwk.n)?, &number(&jwk.e)?),
            ("EC", Some("P-256")) => Material::coordinates(Curve::P256, jwk)?,
            ("EC", Some("P-384")) => Material::coordinates(Curve::P384, jwk)?,
            _ => None,
        };
        let only = jwk.alg.as_deref().map(str::parse).transpose();
        let key = Self {
            id: jwk.kid.clone(),
            only: only.map_err(|_| NotAPublicKey)?,
            material: material.ok_or(NotAPublicKey)?,
        };
        let fits = key.only.is_none_or(|only| key.supports(only));
        fits.then_some(key).ok_or(NotAPublicKey)
    }

    /// The key in the form that is published.
    pub fn to_jwk(&self) -> Jwk {
        let text = |bytes: &[u8]| Some(URL_SAFE_NO_PAD.encode(bytes));
        let mut jwk = Jwk {
            purpose: Some("sig".to_owned()),
            kid: self.id.clone(),
            ..Jwk::default()
        };
        let algorithm = match &self.material {
            Material::Rsa(key) => {
                jwk.kty = "RSA".to_owned();
                (jwk.n, jwk.e) = (text(&key.modulus), text(&key.exponent));
                Algorithm::Rs256
            }
            Material::P256(point) | Material::P384(point) => {
                // The first byte says that both coordinates follow.
                let (x, y) = point[1..].split_at(point.len() / 2);
                jwk.kty = "EC".to_owned();
                (jwk.x, jwk.y) = (text(x), text(y));
                let on_p256 = matches!(self.material, Material::P256(_));
                let (curve, algorithm) = match on_p256 {
                    true => ("P-256", Algorithm::Es256),
                    false => ("P-384", Algorithm::Es384),
                };
                jwk.crv = Some(curve.to_owned());
                algorithm
            }
        };
        jwk.alg = Some(self.only.unwrap_or(algorithm).to_string());
        jwk
    }

    /// The key ID.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Reports whether it supports the algorithm and is intended for it.
    pub fn supports(&self, algorithm: Algorithm) -> bool {
        let of_its_type = matches!(
            (&self.material, algorithm.verification()),
            (Material::Rsa(_), Verification::Rsa(_))
                | (Material::P256(_), Verification::P256(_))
                | (Material::P384(_), Verification::P384(_))
        );
        of_its_type && self.only.is_none_or(|only| only == algorithm)
    }

    /// Checks that it signed this token.
    pub(super) fn check(&self, signed: &Signed<'_>) -> Result<(), Error> {
        if !self.supports(signed.algorithm()) {
            return Err(Error::Mismatch);
        }
        let (message, signature) = (signed.message(), signed.signature());
        let verified = match (&self.material, signed.algorithm().verification()) {
            (Material::Rsa(key), Verification::Rsa(parameters)) => {
                let (n, e) = (&key.modulus, &key.exponent);
                PublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Material::P256(point), Verification::P256(algorithm))
            | (Material::P384(point), Verification::P384(algorithm)) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature)
            }
            _ => return Err(Error::Mismatch),
        };
        verified.map_err(|_| Error::Signature)
    }
}

#[derive(Clone, Copy)]
enum Curve {
    P256,
    P384,
}

impl Material {
    fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let (modulus, exponent) = (stripped(modulus), stripped(exponent));
        // The sizes that ring supports; ring checks the values itself.
        let sizes = (256..=1024).contains(&modulus.len()) && (1..=5).contains(&exponent.len());
        sizes.then(|| {
            Self::Rsa(Rsa {
                modulus: modulus.to_owned(),
                exponent: exponent.to_owned(),
            })
        })
    }

    fn coordinates(curve: Curve, jwk: &Jwk) -> Result<Option<Self>, NotAPublicKey> {
        let (x, y) = (number(&jwk.x)?, number(&jwk.y)?);
        if x.len() != y.len() {
            return Err(NotAPublicKey);
        }
        Ok(Self::point(curve, &[&[4], &x[..], &y[..]].concat()))
    }

    fn point(curve: Curve, point: &[u8]) -> Option<Self> {
        let (made, length): (fn(_) -> _, _) = match curve {
            Curve::P256 => (Self::P256, 65),
            Curve::P384 => (Self::P384, 97),
        };
        let uncompressed = point.first() == Some(&4) && point.len() == length;
        uncompressed.then(|| made(point.to_owned()))
    }
}

fn number(member: &Option<String>) -> Result<Vec<u8>, NotAPublicKey> {
    let text = member.as_deref().ok_or(NotAPublicKey)?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| NotAPublicKey)
}

fn stripped(mut number: &[u8]) -> &[u8] {
    while let [0, rest @ ..] = number {
        number = rest;
    }
    number
}

/// The key ID as in Kubernetes: the digest of the key's DER.
fn id_of(der: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, der).as_ref())
}
