//! Which certificates of servers are accepted: those that Go's TLS accepts.
//!
//! Validity and name are checked before the chain, in Go's order, so that a certificate with
//! several faults is refused for the same one. A certificate that is itself trusted needs no
//! chain, and may be that of a CA.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::roots::Roots;

/// Verifies servers with trusted certificates.
#[derive(Debug)]
pub struct ServerVerifier {
    roots: Roots,
    algorithms: WebPkiSupportedAlgorithms,
}

/// A certificate has the name of its server only where no client looks for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("x509: certificate relies on legacy Common Name field, use SANs instead")]
pub struct LegacyCommonName;

/// A server presents the certificate of a CA, which is trusted only if it is itself among the
/// trusted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("x509: certificate of a CA is not itself among the trusted certificates")]
pub struct UntrustedCa;

impl ServerVerifier {
    /// Creates a verifier with the algorithms of a provider.
    pub fn new(roots: Roots, provider: &CryptoProvider) -> Self {
        Self {
            roots,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Refuses unknown critical extensions, too.
        let parsed = ParsedCertificate::try_from(certificate)?;
        let (_, leaf) = X509Certificate::from_der(certificate)
            .map_err(|_| Error::from(CertificateError::BadEncoding))?;
        verify_validity(&leaf, now)?;
        verify_server_name(&parsed, name).map_err(|error| name_error(error, &leaf, name))?;
        if self.roots.contains(certificate) {
            verify_purpose(&leaf)?;
        } else {
            let (roots, algorithms) = (self.roots.anchors(), self.algorithms.all);
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                roots,
                intermediates,
                now,
                algorithms,
            )
            .map_err(|error| chain_error(error, &leaf))?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn verify_validity(leaf: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
    // No time is before 1970 for rustls.
    let time = |seconds: i64| {
        let seconds = u64::try_from(seconds).unwrap_or_default();
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    };
    let validity = leaf.validity();
    let not_before = time(validity.not_before.timestamp());
    let not_after = time(validity.not_after.timestamp());
    if now < not_before {
        let time = now;
        return Err(CertificateError::NotValidYetContext { time, not_before }.into());
    }
    if now > not_after {
        let time = now;
        return Err(CertificateError::ExpiredContext { time, not_after }.into());
    }
    Ok(())
}

/// Verifies that a certificate may be that of a server, as far as it limits its uses.
fn verify_purpose(leaf: &X509Certificate<'_>) -> Result<(), Error> {
    let usage = leaf.extended_key_usage();
    let usage = usage.map_err(|_| Error::from(CertificateError::BadEncoding))?;
    match usage.map(|usage| usage.value) {
        Some(usage) if !usage.server_auth && !usage.any => {
            Err(CertificateError::InvalidPurpose.into())
        }
        _ => Ok(()),
    }
}

/// Returns why a chain is refused. That a server has the certificate of a CA has no error of
/// rustls' own.
fn chain_error(error: Error, leaf: &X509Certificate<'_>) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::Other(_)) if leaf.is_ca() => {
            match leaf.subject() == leaf.issuer() {
                true => CertificateError::UnknownIssuer.into(),
                false => CertificateError::Other(OtherError(Arc::new(UntrustedCa))).into(),
            }
        }
        error => error,
    }
}

/// Returns a mismatch of names with the names that the certificate has, of the server's sort.
fn name_error(error: Error, leaf: &X509Certificate<'_>, name: &ServerName<'_>) -> Error {
    let Error::InvalidCertificate(
        CertificateError::NotValidForNameContext { .. } | CertificateError::NotValidForName,
    ) = error
    else {
        return error;
    };
    let alternatives = leaf.subject_alternative_name().ok().flatten();
    if alternatives.is_none() && is_common_name(leaf, &name.to_str()) {
        let legacy = OtherError(Arc::new(LegacyCommonName));
        return CertificateError::Other(legacy).into();
    }
    let alternatives = alternatives.map(|names| &names.value.general_names);
    let presented =
        alternatives
            .into_iter()
            .flatten()
            .filter_map(|presented| match (presented, name) {
                (GeneralName::DNSName(dns), ServerName::DnsName(_)) => Some((*dns).to_owned()),
                (GeneralName::IPAddress(bytes), ServerName::IpAddress(_)) => address(bytes),
                _ => None,
            });
    let presented = presented.collect();
    let expected = name.to_owned();
    CertificateError::NotValidForNameContext {
        expected,
        presented,
    }
    .into()
}

fn address(bytes: &[u8]) -> Option<String> {
    use std::net::IpAddr;
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(bytes).to_string());
    }
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    Some(IpAddr::from(bytes).to_string())
}

/// Returns whether the common name of a certificate, perhaps with a wildcard, is the host.
fn is_common_name(leaf: &X509Certificate<'_>, host: &str) -> bool {
    let names = leaf.subject().iter_common_name();
    // Go takes the last one.
    let Some(name) = names.last().and_then(|name| name.as_str().ok()) else {
        return false;
    };
    let rest = |name: &str| name.split_once('.').map(|(_, rest)| rest.to_owned());
    name.eq_ignore_ascii_case(host)
        || match name.strip_prefix("*.") {
            Some(parent) => rest(host).is_some_and(|rest| rest.eq_ignore_ascii_case(parent)),
            None => false,
        }
}
