//! The TLS configuration of the server.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use tokio_rustls::TlsAcceptor;

use crate::pipeline::client_certificates::{Clients, InvalidCa};
use crate::pipeline::trust::CurrentTrust;

/// The name of HTTP/2 in the handshake.
pub(super) const HTTP2: &[u8] = b"h2";

/// The server certificate. It can be replaced while the server runs: open connections stay,
/// and new ones see the new certificate.
pub struct Certificates {
    shown: RwLock<Arc<CertifiedKey>>,
}

/// The error of unusable TLS settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An unusable certificate or key.
    #[error("the certificate and its key cannot be used: {0}")]
    Certificate(#[source] rustls::Error),
    /// An unusable CA of client certificates.
    #[error(transparent)]
    ClientCa(#[from] InvalidCa),
    /// Another TLS error.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[source] rustls::Error),
}

impl Certificates {
    /// Uses this chain, leaf first, with the key of the leaf.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, Error> {
        let shown = RwLock::new(certified(chain, key)?);
        Ok(Self { shown })
    }

    /// Replaces the certificate. If the new one is unusable, the old one stays.
    pub fn replace(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), Error> {
        let next = certified(chain, key)?;
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// Returns the current chain, leaf first.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.current().cert.clone()
    }

    fn current(&self) -> Arc<CertifiedKey> {
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&shown)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates(****)")
    }
}

/// Accepts TLS connections, and requests certificates of the CAs that are trusted now: clients
/// choose one by the names of the CAs.
#[derive(Debug)]
pub struct Acceptor {
    certificates: Arc<Certificates>,
    trust: Arc<CurrentTrust>,
    current: RwLock<VersionedAcceptor>,
}

struct VersionedAcceptor {
    acceptor: TlsAcceptor,
    /// The version of the trusted CAs that it was made for.
    version: u64,
}

impl Acceptor {
    /// Accepts connections with this server certificate.
    pub fn new(certificates: Arc<Certificates>, trust: Arc<CurrentTrust>) -> Result<Self, Error> {
        let now = trust.get();
        let acceptor = acceptor(Arc::clone(&certificates), now.clients.as_deref())?;
        let version = now.version;
        Ok(Self {
            certificates,
            trust,
            current: RwLock::new(VersionedAcceptor { acceptor, version }),
        })
    }

    /// Returns the acceptor for the CAs that are trusted now.
    pub fn current(&self) -> TlsAcceptor {
        let now = self.trust.get();
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if current.version == now.version {
            return current.acceptor.clone();
        }
        let previous = current.acceptor.clone();
        drop(current);
        match acceptor(Arc::clone(&self.certificates), now.clients.as_deref()) {
            Ok(acceptor) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = VersionedAcceptor {
                    acceptor: acceptor.clone(),
                    version: now.version,
                };
                acceptor
            }
            // The CAs were usable when they were read.
            Err(error) => {
                tracing::error!(%error, "TLS settings not replaced");
                previous
            }
        }
    }
}

impl fmt::Debug for VersionedAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionedAcceptor")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Returns an acceptor for TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1. Client certificates are
/// optional and verified after the handshake, with [`Clients::verify`].
fn acceptor(
    certificates: Arc<Certificates>,
    clients: Option<&Clients>,
) -> Result<TlsAcceptor, Error> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(Error::Setup)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.asking()),
    };
    let mut config = builder.with_cert_resolver(certificates);
    // Returning clients prove that they know the session instead of computing signatures. Their
    // certificate is in the ticket, and is verified again like one that was just shown.
    config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(Error::Setup)?;
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<CertifiedKey>, Error> {
    let certified = CertifiedKey::from_der(chain, key, &provider());
    certified.map(Arc::new).map_err(Error::Certificate)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pair() -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let made = CertificateParams::default().self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (vec![made.der().clone()], key)
    }

    #[test]
    fn mismatched_certificate_and_key_are_rejected_and_the_old_pair_stays() {
        let (first, second) = (pair(), pair());
        let certificates = Certificates::new(first.0.clone(), first.1.clone_key()).unwrap();
        for (chain, key) in [
            (second.0.clone(), first.1.clone_key()),
            (first.0.clone(), second.1.clone_key()),
            (Vec::new(), first.1.clone_key()),
            (vec![b"nonsense".to_vec().into()], first.1.clone_key()),
        ] {
            let error = certificates.replace(chain, key).unwrap_err().to_string();
            let said = "the certificate and its key cannot be used";
            assert!(error.starts_with(said), "{error}");
            assert_eq!(certificates.chain(), first.0);
        }
        certificates.replace(second.0.clone(), second.1).unwrap();
        assert_eq!(certificates.chain(), second.0);
        assert_eq!(format!("{certificates:?}"), "Certificates(****)");
    }
}
