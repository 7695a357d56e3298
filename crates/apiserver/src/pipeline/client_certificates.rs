//! Client certificates: requested in the handshake, verified afterwards.
//!
//! As in Kubernetes, an untrusted certificate does not fail the handshake: the client may also
//! have a token, and otherwise gets a 401 instead of a broken connection. So the handshake
//! proves only that the client holds the key of its certificate. **A client certificate must
//! not be trusted before it is [verified](Clients::verify).**
//!
//! There is a second reason: a resumed session carries the certificates of the original
//! handshake, without verifying them again.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use insula_access::{Validity, certificate};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

/// The trusted CAs of client certificates.
#[derive(Debug)]
pub struct Clients {
    cas: Vec<Ca>,
    all: Arc<dyn ClientCertVerifier>,
}

/// A trusted CA. The verifier does not check the validity of the CA itself, so each CA has its
/// own verifier, which is used only while the CA is valid.
#[derive(Debug)]
struct Ca {
    der: CertificateDer<'static>,
    validity: Validity,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The error of an untrusted certificate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Untrusted {
    /// No certificate.
    #[error("no certificate was shown")]
    Missing,
    /// Too many certificates.
    #[error("more than {MAX_CHAIN_LENGTH} certificates were shown")]
    Long,
    /// A malformed certificate.
    #[error("the certificate cannot be read")]
    Form,
    /// A certificate of an unknown CA, not for clients, or not valid now.
    #[error("the certificate is not trusted: {0}")]
    Verify(rustls::Error),
}

/// A CA for client certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("a CA for client certificates cannot be used")]
pub struct InvalidCa;

/// The most certificates of a chain: the possible paths to a CA multiply with each, and the
/// client is unauthenticated.
const MAX_CHAIN_LENGTH: usize = 10;

impl Clients {
    /// Trusts these CAs. Returns `None` without any, and then no certificate is requested.
    pub fn new(cas: &[CertificateDer<'static>]) -> Result<Option<Self>, InvalidCa> {
        if cas.is_empty() {
            return Ok(None);
        }
        let all = verifier(cas)?;
        let cas = cas.iter().map(Ca::new).collect::<Result<_, _>>()?;
        Ok(Some(Self { cas, all }))
    }

    /// Whether all of these CAs are among others.
    pub fn are_within(&self, others: &Self) -> bool {
        let among = |ca: &Ca| others.cas.iter().any(|other| other.der == ca.der);
        self.cas.iter().all(among)
    }

    /// Verifies a chain, leaf first, and returns its expiry. The other certificates may be
    /// intermediates.
    ///
    /// The leaf must be issued by a trusted CA, be allowed for clients, not be a CA, and be
    /// valid now, and so must the intermediates. The chain expires with the first of them.
    pub fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Result<SystemTime, Untrusted> {
        let (leaf, between) = chain.split_first().ok_or(Untrusted::Missing)?;
        if chain.len() > MAX_CHAIN_LENGTH {
            return Err(Untrusted::Long);
        }
        let mut until = validity(leaf).ok_or(Untrusted::Form)?.until;
        // An unused certificate that expires first only costs the client a new connection.
        for other in between.iter().filter_map(|der| validity(der)) {
            if other.until >= now {
                until = until.min(other.until);
            }
        }
        let unknown = rustls::CertificateError::UnknownIssuer;
        let mut refused = Untrusted::Verify(unknown.into());
        let mut proved = None;
        for ca in self.cas.iter().filter(|ca| ca.holds(now)) {
            match ca.verifier.verify_client_cert(leaf, between, unix(now)) {
                Ok(_) => proved = proved.max(Some(until.min(ca.validity.until))),
                Err(error) => refused = Untrusted::Verify(error),
            }
        }
        proved.ok_or(refused)
    }

    /// Returns the TLS verifier, which accepts every certificate whose key the client holds.
    pub fn asking(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(RequestingVerifier(Arc::clone(&self.all)))
    }
}

impl Ca {
    fn new(der: &CertificateDer<'static>) -> Result<Self, InvalidCa> {
        Ok(Self {
            der: der.clone(),
            validity: validity(der).ok_or(InvalidCa)?,
            verifier: verifier(std::slice::from_ref(der))?,
        })
    }

    fn holds(&self, now: SystemTime) -> bool {
        self.validity.from <= now && now <= self.validity.until
    }
}

/// Sends the names of the CAs and verifies possession of the key, but not the certificate.
#[derive(Debug)]
struct RequestingVerifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for RequestingVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn verifier(cas: &[CertificateDer<'static>]) -> Result<Arc<dyn ClientCertVerifier>, InvalidCa> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for ca in cas {
        roots.add(ca.clone()).map_err(|_| InvalidCa)?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let built = builder.allow_unauthenticated().build();
    built.map_err(|_| InvalidCa)
}

fn validity(der: &CertificateDer<'_>) -> Option<Validity> {
    certificate::validity(der).ok()
}

fn unix(time: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests;
