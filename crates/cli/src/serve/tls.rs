//! The server certificate.

use std::path::PathBuf;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::certificate_file::{self, read};
use crate::failure::Failure;
use crate::pki::Identity;

/// A certificate chain and its matching key.
pub struct Tls {
    /// The server's certificate, then the intermediates.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the server's certificate.
    pub key: PrivateKeyDer<'static>,
    /// The chain as read.
    pub pem: String,
}

/// The files of a server certificate, which may be replaced at any time.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl Tls {
    /// Parses PEM. The chain must begin with the certificate of the key.
    pub fn parse(chain: &[u8], key: &[u8]) -> Result<Self, &'static str> {
        let parsed = certificate_file::parse(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "the key is not PEM")?;
        let signing = any_supported_type(&key).map_err(|_| "the key type is not supported")?;
        let matched = CertifiedKey::new(parsed.clone(), signing).keys_match();
        matched.map_err(|_| "the key does not match the certificate")?;
        Ok(Self {
            chain: parsed,
            key,
            pem: String::from_utf8_lossy(chain).into_owned(),
        })
    }

    /// Builds the certificate that the own CA issued.
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
    /// Loads the files.
    pub fn load(&self) -> Result<Tls, Failure> {
        let attempted = format!("cannot serve with {}", self.certificate.display());
        let tls = Tls::parse(&read(&self.certificate)?, &read(&self.key)?);
        tls.map_err(|why| Failure::new(&attempted, why))
    }
}
