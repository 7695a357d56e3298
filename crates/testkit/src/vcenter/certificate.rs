//! The certificate of a vCenter.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use insula_access::{Authority, Validity};
use ring::digest;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate and its CA.
#[derive(Clone)]
pub(super) struct Certificate {
    pub tls: TlsAcceptor,
    pub ca_pem: String,
    leaf: Vec<u8>,
}

impl Certificate {
    /// Creates one for these names, with a new CA.
    pub fn generate(names: &[String]) -> anyhow::Result<Self> {
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(86_400));
        let authority = Authority::generate("fake vCenter", validity)?;
        let key = rcgen::KeyPair::generate()?;
        let certificate = authority.issue_server(names, &key, validity)?;
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
        let leaf = certificate.to_vec();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        Ok(Self {
            tls: Arc::new(config).into(),
            ca_pem: authority.certificate_pem().to_owned(),
            leaf,
        })
    }

    pub fn sha1(&self) -> String {
        self.thumbprint(&digest::SHA1_FOR_LEGACY_USE_ONLY)
    }

    pub fn sha256(&self) -> String {
        self.thumbprint(&digest::SHA256)
    }

    fn thumbprint(&self, algorithm: &'static digest::Algorithm) -> String {
        let mut text = String::new();
        for (at, byte) in digest::digest(algorithm, &self.leaf)
            .as_ref()
            .iter()
            .enumerate()
        {
            let colon = if at == 0 { "" } else { ":" };
            // Writing to a string does not fail.
            let _ = write!(text, "{colon}{byte:02X}");
        }
        text
    }
}
