//! Verification of server certificates: by authorities, by a pinned fingerprint, or not at all.

use std::fmt;
use std::sync::Arc;

use insula_identity::endpoint::Trust;
use insula_tls::{LegacyCommonName, ServerVerifier};
use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, SignatureScheme,
};

/// The certificate authorities that a provider trusts.
#[derive(Clone)]
pub(super) struct Authorities {
    provider: Arc<CryptoProvider>,
    verifier: Arc<ServerVerifier>,
}

impl Authorities {
    /// Returns the system's authorities and these, in DER.
    pub(super) fn new(extra_roots: Vec<Vec<u8>>) -> Self {
        let mut roots = insula_tls::system_roots();
        // Invalid certificates are skipped; a missing root shows when it is needed.
        roots.add(extra_roots.into_iter().map(CertificateDer::from));
        let provider = Arc::new(provider::default_provider());
        let verifier = Arc::new(ServerVerifier::new(roots, &provider));
        Self { provider, verifier }
    }

    /// Returns the TLS configuration for a trust.
    ///
    /// Each trust has its own configuration, so that a TLS session is never resumed with another
    /// trust.
    pub(super) fn config(&self, trust: &Trust) -> Result<Arc<ClientConfig>, Error> {
        if let Trust::AsCredential(_) = trust {
            // The authorities are in the credential, which is not known here. The usual ones are
            // not what its owner chose.
            return Err(Error::General(
                "the authorities of the credential are not known".to_owned(),
            ));
        }
        let verifier = CertificateVerifier {
            authorities: self.clone(),
            trust: trust.clone(),
        };
        let config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

/// A certificate that is not trusted, with the fingerprints that a user needs to pin it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UntrustedCertificate {
    why: String,
    sha1: String,
    sha256: String,
    expected: Option<String>,
}

impl UntrustedCertificate {
    /// Returns the cause of a failed handshake, if the certificate is.
    pub(super) fn cause_of(error: &std::io::Error) -> Option<Self> {
        let error = error.get_ref()?.downcast_ref::<Error>()?;
        let Error::InvalidCertificate(CertificateError::Other(OtherError(other))) = error else {
            return None;
        };
        other.downcast_ref::<Self>().cloned()
    }
}

impl fmt::Display for UntrustedCertificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            why,
            sha1,
            sha256,
            expected,
        } = self;
        write!(
            out,
            "{why}; its fingerprints are {sha1} (SHA-1) and {sha256} (SHA-256)"
        )?;
        match expected {
            Some(expected) => write!(out, ", and {expected:?} is expected"),
            None => write!(out, ", and none is expected"),
        }
    }
}

/// Accepts certificates that an authority has signed, and the pinned one.
struct CertificateVerifier {
    authorities: Authorities,
    trust: Trust,
}

impl fmt::Debug for CertificateVerifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CertificateVerifier")
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.trust == Trust::AnyCertificate {
            return Ok(ServerCertVerified::assertion());
        }
        let verifier = &self.authorities.verifier;
        let verified = verifier.verify_server_cert(certificate, intermediates, name, ocsp, now);
        let why = match verified {
            Ok(verified) => return Ok(verified),
            Err(why) => why,
        };
        let expected = match &self.trust {
            Trust::Pinned(pin) => Some(pin),
            Trust::Verified | Trust::AsCredential(_) | Trust::AnyCertificate => None,
        };
        // A pinned certificate is accepted whatever its name and date are.
        if expected.is_some_and(|pin| is_fingerprint_of(pin, certificate)) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(untrusted(why, certificate, expected))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = &self.authorities.verifier;
        verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = &self.authorities.verifier;
        verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.verifier.supported_verify_schemes()
    }
}

fn untrusted(why: Error, certificate: &CertificateDer<'_>, expected: Option<&String>) -> Error {
    let why = match why {
        Error::InvalidCertificate(why) => describe(&why),
        other => other.to_string(),
    };
    let untrusted = UntrustedCertificate {
        why,
        sha1: fingerprint(&SHA1_FOR_LEGACY_USE_ONLY, certificate),
        sha256: fingerprint(&SHA256, certificate),
        expected: expected.cloned(),
    };
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(untrusted))))
}

/// Returns why a certificate is not trusted, without anything that it contains.
pub(super) fn describe(why: &CertificateError) -> String {
    match why {
        // A known authority with another key is not that authority.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "it is not signed by a known authority".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".to_owned()
        }
        CertificateError::Other(other) if other.0.is::<LegacyCommonName>() => {
            "it is for another name".to_owned()
        }
        other => other.to_string(),
    }
}

/// Returns whether a pin, in any notation, is the certificate's fingerprint.
fn is_fingerprint_of(pin: &str, certificate: &CertificateDer<'_>) -> bool {
    let digits = |text: &str| -> String {
        let digits = text
            .chars()
            .filter(|digit| *digit != ':' && !digit.is_whitespace());
        digits.map(|digit| digit.to_ascii_uppercase()).collect()
    };
    let pin = digits(pin);
    [&SHA1_FOR_LEGACY_USE_ONLY, &SHA256]
        .iter()
        .any(|algorithm| digits(&fingerprint(algorithm, certificate)) == pin)
}

fn fingerprint(algorithm: &'static Algorithm, certificate: &CertificateDer<'_>) -> String {
    let digest = digest(algorithm, certificate);
    let pairs: Vec<String> = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    pairs.join(":")
}
