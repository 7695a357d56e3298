//! Certificates of clients: asked for when a connection is made, judged afterwards.
//!
//! A certificate that is worth nothing does not end the handshake, as it does not in
//! Kubernetes: its holder may have a token as well, and whoever has neither is told 401 and
//! not left with a broken connection. So the handshake proves one thing only, that the
//! client holds the key of what it shows. **Nothing that a client shows may be believed
//! before it was [judged](Clients::judge).**
//!
//! Judging afterwards has a second reason. A session that is resumed brings along what was
//! shown when it began, and the handshake verifies nothing again.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use insula_access::{Validity, certificate};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

/// The CAs that certificates of clients are trusted from.
#[derive(Debug)]
pub struct Clients {
    cas: Vec<Ca>,
    all: Arc<dyn ClientCertVerifier>,
}

/// One of them. A verifier does not ask whether a CA itself still holds, so each has its
/// own and is asked in its time.
#[derive(Debug)]
struct Ca {
    validity: Validity,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Why a certificate proves nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Untrusted {
    /// There is none.
    #[error("no certificate was shown")]
    Missing,
    /// There are too many.
    #[error("more than {MAX_CHAIN_LENGTH} certificates were shown")]
    Long,
    /// It cannot be read.
    #[error("the certificate cannot be read")]
    Form,
    /// It is from elsewhere, not for clients, or does not hold now.
    #[error("the certificate is not trusted: {0}")]
    Verify(rustls::Error),
}

/// A CA for client certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("a CA for client certificates cannot be used")]
pub struct InvalidCa;

/// How many certificates a client may show: with each the ways to a CA multiply, and
/// nobody has proved anything yet.
const MAX_CHAIN_LENGTH: usize = 10;

impl Clients {
    /// Trusts these CAs. If there are none, no client is asked for a certificate.
    pub fn new(cas: &[CertificateDer<'static>]) -> Result<Option<Self>, InvalidCa> {
        if cas.is_empty() {
            return Ok(None);
        }
        let all = verifier(cas)?;
        let cas = cas.iter().map(Ca::new).collect::<Result<_, _>>()?;
        Ok(Some(Self { cas, all }))
    }

    /// Until when a chain, leaf first, proves who its holder is. What is not the leaf may
    /// lead to a CA that is trusted.
    ///
    /// It must be from such a CA, be allowed for clients, be no CA itself, and hold now,
    /// and so must everything between. When one of them ends, so does the proof.
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
        // One that leads nowhere, and ends first, costs its holder a new connection.
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

    /// Asks for certificates in a handshake, and takes every one whose key the client has.
    pub fn asking(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(RequestingVerifier(Arc::clone(&self.all)))
    }
}

impl Ca {
    fn new(der: &CertificateDer<'static>) -> Result<Self, InvalidCa> {
        Ok(Self {
            validity: validity(der).ok_or(InvalidCa)?,
            verifier: verifier(std::slice::from_ref(der))?,
        })
    }

    fn holds(&self, now: SystemTime) -> bool {
        self.validity.from <= now && now <= self.validity.until
    }
}

/// Names the CAs to clients and verifies that a key is theirs; the certificate it takes.
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
