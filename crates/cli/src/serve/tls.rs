//! What the server shows clients.

use std::path::{Path, PathBuf};

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::failure::Failure;
use crate::pki::Identity;

/// A certificate chain and its key, which belong together.
pub struct Tls {
    /// The server's certificate, then those that lead to its CA.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the first.
    pub key: PrivateKeyDer<'static>,
    /// The chain as it was read.
    pub pem: String,
}

/// Where they are kept by whoever gives them to the server, and may be replaced.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl Tls {
    /// From PEM. The chain must begin with the certificate of the key.
    pub fn parse(chain: &[u8], key: &[u8]) -> Result<Self, &'static str> {
        let no_chain = "it has no certificates in PEM";
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let parsed = parsed.map_err(|_| no_chain)?;
        if parsed.is_empty() {
            return Err(no_chain);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "its key is not in PEM")?;
        let signing = any_supported_type(&key).map_err(|_| "its key is of an unknown kind")?;
        let matched = CertifiedKey::new(parsed.clone(), signing).keys_match();
        matched.map_err(|_| "its key belongs to another certificate")?;
        Ok(Self {
            chain: parsed,
            key,
            pem: String::from_utf8_lossy(chain).into_owned(),
        })
    }

    /// What the server's own CA issued.
    pub fn own(identity: &Identity) -> Result<Self, Failure> {
        let chain = identity.certificate.as_bytes();
        let tls = Self::parse(chain, identity.key.reveal().as_bytes());
        tls.map_err(|why| Failure::new("cannot use the server's own certificate", why))
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.pem == other.pem && self.key.secret_der() == other.key.secret_der()
    }
}

impl TlsFiles {
    /// What is in them now.
    pub fn load(&self) -> Result<Tls, Failure> {
        let attempted = format!("cannot serve with {}", self.certificate.display());
        let tls = Tls::parse(&read(&self.certificate)?, &read(&self.key)?);
        tls.map_err(|why| Failure::new(&attempted, why))
    }
}

/// Reads a file that must be there.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let attempted = format!("cannot read {}", path.display());
    std::fs::read(path).map_err(|error| Failure::new(&attempted, error))
}

/// The certificates in a file, at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let attempted = format!("cannot use {}", path.display());
    let bytes = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(Failure::new(&attempted, "it has no certificates in PEM")),
    }
}
