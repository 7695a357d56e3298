//! Which certificates are accepted, and what is said of others.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::{Roots, ServerVerifier, tls_error};

/// A certificate for `a.test` and `192.0.2.1` in 2026, of a CA if `is_ca`.
fn params(is_ca: bool) -> CertificateParams {
    let names = vec!["a.test".to_owned(), "192.0.2.1".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2027, 1, 1);
    params
        .distinguished_name
        .push(DnType::CommonName, "cn.test");
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    params
}

fn self_signed(params: &CertificateParams) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().clone()
}

/// 2026-06-01T00:00:00Z.
const NOW: u64 = 1_780_272_000;

/// Returns the message of a refusal, or nothing.
fn refusal(
    certificate: &CertificateDer<'static>,
    trusted: &[&CertificateDer<'static>],
    host: &str,
    now: u64,
) -> String {
    let roots = Roots::new(trusted.iter().map(|trusted| (*trusted).clone()));
    let verifier = ServerVerifier::new(roots, &Arc::new(ring::default_provider()));
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    let verified = verifier.verify_server_cert(certificate, &[], &name, &[], now);
    verified
        .err()
        .map_or_else(String::new, |error| tls_error(&error))
}

const UNKNOWN: &str = "tls: failed to verify certificate: x509: \
                       certificate signed by unknown authority";

#[test]
fn trusted_certificate_of_a_server_is_accepted_even_if_it_is_of_a_ca() {
    for is_ca in [true, false] {
        let (own, twin) = (self_signed(&params(is_ca)), self_signed(&params(is_ca)));
        for host in ["a.test", "192.0.2.1"] {
            assert_eq!(refusal(&own, &[&own], host, NOW), "", "{is_ca}");
            assert_eq!(refusal(&own, &[&twin, &own], host, NOW), "", "{is_ca}");
        }
        // Another certificate with the same names is not the trusted one.
        assert_eq!(refusal(&own, &[&twin], "a.test", NOW), UNKNOWN, "{is_ca}");
        assert_eq!(refusal(&own, &[], "a.test", NOW), UNKNOWN, "{is_ca}");
    }
}

#[test]
fn message_of_a_wrapped_error_is_that_of_tls() {
    let error = || rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
    let once = std::io::Error::other(error());
    let twice = std::io::Error::other(std::io::Error::other(error()));
    for error in [
        &error() as &(dyn std::error::Error + 'static),
        &once,
        &twice,
    ] {
        assert_eq!(crate::message_of(error).as_deref(), Some(UNKNOWN));
    }
    assert_eq!(crate::message_of(&std::io::Error::other("else")), None);
}

#[test]
fn certificate_of_a_ca_is_not_accepted_for_its_issuer() {
    let (root_key, leaf_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut root = params(true);
    root.distinguished_name
        .push(DnType::CommonName, "root.test");
    let root_certificate = root.self_signed(&root_key).unwrap().der().clone();
    let issuer = Issuer::from_params(&root, &root_key);
    for (is_ca, expected) in [
        (false, ""),
        (
            true,
            "tls: failed to verify certificate: x509: certificate of a CA is not itself among \
             the trusted certificates",
        ),
    ] {
        let leaf = params(is_ca).signed_by(&leaf_key, &issuer).unwrap();
        let leaf = leaf.der().clone();
        assert_eq!(
            refusal(&leaf, &[&root_certificate], "a.test", NOW),
            expected
        );
        // Without its issuer, too.
        assert_eq!(refusal(&leaf, &[&leaf], "a.test", NOW), "");
    }
}

#[test]
fn trusted_certificate_of_a_server_signs_no_others() {
    for (is_ca, expected) in [(true, ""), (false, UNKNOWN)] {
        let (own, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let trusted = params(is_ca);
        let certificate = trusted.self_signed(&own).unwrap().der().clone();
        let issuer = Issuer::new(trusted, own);
        let forged = params(false).signed_by(&other, &issuer).unwrap();
        let forged = forged.der().clone();
        assert_eq!(refusal(&certificate, &[&certificate], "a.test", NOW), "");
        assert_eq!(refusal(&forged, &[&certificate], "a.test", NOW), expected);
    }
}

#[test]
fn trusted_certificate_is_valid_for_its_time_names_and_uses_only() {
    let own = self_signed(&params(true));
    for (host, now, expected) in [
        (
            "b.test",
            NOW,
            "x509: certificate is valid for a.test, not b.test",
        ),
        (
            "cn.test",
            NOW,
            "x509: certificate is valid for a.test, not cn.test",
        ),
        (
            "192.0.2.2",
            NOW,
            "x509: certificate is valid for 192.0.2.1, not 192.0.2.2",
        ),
        (
            "a.test",
            1_798_761_601,
            "x509: certificate has expired or is not yet valid: current time \
             2027-01-01T00:00:01Z is after 2027-01-01T00:00:00Z",
        ),
        (
            "a.test",
            1_767_225_599,
            "x509: certificate has expired or is not yet valid: current time \
             2025-12-31T23:59:59Z is before 2026-01-01T00:00:00Z",
        ),
    ] {
        let expected = format!("tls: failed to verify certificate: {expected}");
        assert_eq!(refusal(&own, &[&own], host, now), expected);
        // Whether the certificate is trusted is asked last.
        assert_eq!(refusal(&own, &[], host, now), expected);
    }
    for (usage, expected) in [
        (ExtendedKeyUsagePurpose::ServerAuth, ""),
        (ExtendedKeyUsagePurpose::Any, ""),
        (
            ExtendedKeyUsagePurpose::ClientAuth,
            "tls: failed to verify certificate: x509: certificate specifies an incompatible key \
             usage",
        ),
    ] {
        let mut params = params(true);
        params.extended_key_usages = vec![usage];
        let own = self_signed(&params);
        assert_eq!(refusal(&own, &[&own], "a.test", NOW), expected);
    }
}

#[test]
fn common_name_is_no_name_of_a_server() {
    let mut params = params(true);
    params.subject_alt_names.clear();
    let own = self_signed(&params);
    for (host, expected) in [
        (
            "cn.test",
            "certificate relies on legacy Common Name field, use SANs instead",
        ),
        (
            "CN.Test",
            "certificate relies on legacy Common Name field, use SANs instead",
        ),
        (
            "other.test",
            "certificate is not valid for any names, but wanted to match other.test",
        ),
        (
            "192.0.2.1",
            "cannot validate certificate for 192.0.2.1 because it doesn't contain any IP SANs",
        ),
    ] {
        let expected = format!("tls: failed to verify certificate: x509: {expected}");
        assert_eq!(refusal(&own, &[&own], host, NOW), expected);
    }
}

#[test]
fn handshake_with_another_key_than_the_trusted_certificates_fails() {
    use rustls::pki_types::PrivateKeyDer;
    let own_key = KeyPair::generate().unwrap();
    let mut params = params(true);
    // Handshakes have the clock's time.
    params.not_after = date_time_ymd(4096, 1, 1);
    let own = params.self_signed(&own_key).unwrap().der().clone();
    let other_key = KeyPair::generate().unwrap();
    for (key, expected) in [(&own_key, true), (&other_key, false)] {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = ring::default_provider();
        let signer = provider.key_provider.load_private_key(key).unwrap();
        let certified = rustls::sign::CertifiedKey::new(vec![own.clone()], signer);
        assert_eq!(shake_hands(certified, own.clone()), expected);
    }
}

/// Returns whether a client that trusts a certificate accepts a server, in memory.
fn shake_hands(server: rustls::sign::CertifiedKey, trusted: CertificateDer<'static>) -> bool {
    use rustls::{ClientConnection, ServerConfig, ServerConnection};
    /// A certificate with a key that may be another one.
    #[derive(Debug)]
    struct Fixed(Arc<rustls::sign::CertifiedKey>);
    impl rustls::server::ResolvesServerCert for Fixed {
        fn resolve(
            &self,
            _: rustls::server::ClientHello<'_>,
        ) -> Option<Arc<rustls::sign::CertifiedKey>> {
            Some(Arc::clone(&self.0))
        }
    }
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Fixed(Arc::new(server))));
    let config = Arc::new(config);
    let client = super::client_config(Roots::new([trusted])).unwrap();
    let name = ServerName::try_from("a.test").unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(config).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        if client.process_new_packets().is_err() {
            return false;
        }
    }
    true
}
