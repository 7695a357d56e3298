//! How clients verify servers: the trusted certificate authorities, TLS with them, and the
//! messages of failures.
//!
//! Clients of Kubernetes APIs use kube's TLS instead, which also has client certificates and
//! reloads the CAs of a pod.

mod message;
mod roots;
mod verifier;

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

pub use message::{certificate_error, handshake_error, message_of, tls_error};
pub use roots::Roots;
pub use verifier::{LegacyCommonName, ServerVerifier, UntrustedCa};

/// The trusted certificate authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that the machine trusts.
    System,
    /// These CAs only, in PEM.
    Authorities(String),
}

/// The PEM of the authorities has no certificate, or one that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the CA bundle is not a certificate in PEM")]
pub struct InvalidAuthority;

/// Returns the trusted roots.
///
/// # Errors
///
/// If the authorities are not certificates in PEM.
pub fn roots(trust: &Trust) -> Result<Roots, InvalidAuthority> {
    match trust {
        Trust::System => Ok(system_roots()),
        Trust::Authorities(pem) => Ok(Roots::new(authorities(pem.as_bytes())?)),
    }
}

/// Returns the roots that the machine trusts. Its bundle may hold certificates that rustls
/// cannot parse; a peer that needs one of those fails verification.
pub fn system_roots() -> Roots {
    Roots::new(rustls_native_certs::load_native_certs().certs)
}

/// Returns the certificates that the machine trusts and rustls can parse.
pub fn system_authorities() -> Vec<CertificateDer<'static>> {
    let mut certificates = rustls_native_certs::load_native_certs().certs;
    certificates.retain(is_usable);
    certificates
}

/// Parses a CA bundle in PEM: at least one certificate, and only usable ones.
///
/// # Errors
///
/// If it is not such a bundle.
pub fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, InvalidAuthority> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match parsed {
        Ok(parsed) if !parsed.is_empty() && parsed.iter().all(is_usable) => Ok(parsed),
        _ => Err(InvalidAuthority),
    }
}

/// Returns whether a certificate is usable as a root. A single unusable one would make kube
/// refuse all.
fn is_usable(certificate: &CertificateDer<'static>) -> bool {
    RootCertStore::empty().add(certificate.clone()).is_ok()
}

/// Returns a TLS configuration that verifies servers with these roots, without a client
/// certificate.
///
/// # Errors
///
/// If the cryptography does not support the usual versions of TLS.
pub fn client_config(roots: Roots) -> Result<ClientConfig, rustls::Error> {
    client_config_with(roots, None)
}

/// Returns the same with a client certificate and its key.
///
/// # Errors
///
/// If the certificate or the key cannot be used.
pub fn client_config_with(
    roots: Roots,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(ServerVerifier::new(roots, &provider));
    // "Dangerous" are verifiers that accept more than rustls' own. This one accepts trusted
    // certificates that are those of servers themselves.
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match identity {
        None => Ok(config.with_no_client_auth()),
        Some((chain, key)) => config.with_client_auth_cert(chain, key),
    }
}

#[cfg(test)]
mod verifier_tests;

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    #[test]
    fn bundle_is_one_or_more_usable_certificates() {
        let certificate = || {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec!["ca.example".to_owned()]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.self_signed(&key).unwrap().pem()
        };
        let (one, other) = (certificate(), certificate());
        let block =
            |text| format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        for (pem, count) in [
            (one.clone(), Some(1)),
            ([one.clone(), other].concat(), Some(2)),
            (String::new(), None),
            ("else".to_owned(), None),
            (block("AAAA"), None),
            (block("%%"), None),
            ([one, block("AAAA")].concat(), None),
        ] {
            let parsed = authorities(pem.as_bytes()).ok().map(|parsed| parsed.len());
            assert_eq!(parsed, count, "{pem}");
            let roots = roots(&Trust::Authorities(pem)).ok();
            assert_eq!(roots.map(|roots| roots.into_anchors().len()), count);
        }
    }
}
