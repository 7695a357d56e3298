//! TLS of the API client.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::failure::Failure;
use crate::kubeconfig::{ClientCertificate, Connection, Trust};

/// The TLS configuration of a connection.
#[derive(Clone)]
pub struct Tls {
    /// The verifier and the client certificate.
    pub config: Arc<ClientConfig>,
    /// The expected server name.
    pub name: ServerName<'static>,
}

impl Tls {
    /// Builds the configuration from a kubeconfig, for the host of its URL.
    pub fn new(connection: &Connection, host: &str) -> Result<Self, Failure> {
        let provider = Arc::new(ring::default_provider());
        let verifier = verifier(&connection.trust, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match &connection.certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let (chain, key) = parse(certificate)?;
                builder.with_client_auth_cert(chain, key).map_err(wrong)?
            }
        };
        let name = connection.server_name.as_deref();
        let name = name.unwrap_or(host.trim_matches(['[', ']'])).to_owned();
        let name = ServerName::try_from(name).map_err(wrong)?;
        let config = Arc::new(config);
        Ok(Self { config, name })
    }
}

fn verifier(
    trust: &Trust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::Insecure => return Ok(Arc::new(AcceptAnyServer(provider.clone()))),
        Trust::Authorities(pem) => {
            let authorities = CertificateDer::pem_slice_iter(pem.as_bytes());
            for authority in authorities {
                let added = authority.map_err(|_| not_pem("certificate-authority"))?;
                roots
                    .add(added)
                    .map_err(|_| not_pem("certificate-authority"))?;
            }
        }
        Trust::System => {
            // Unreadable roots are ignored; a missing one is noticed when it is used.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let roots = Arc::new(roots);
    let built = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
    built.map(|verifier| verifier as _).map_err(wrong)
}

type ChainAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn parse(certificate: &ClientCertificate) -> Result<ChainAndKey, Failure> {
    let chain = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes());
    let chain: Result<Vec<_>, _> = chain.collect();
    let chain = chain.map_err(|_| not_pem("client-certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key.reveal().as_bytes());
    Ok((chain, key.map_err(|_| not_pem("client-key"))?))
}

fn not_pem(what: &str) -> Failure {
    Failure::message(format!("the kubeconfig's {what} is not valid PEM"))
}

fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::new("cannot set up TLS with the kubeconfig", error)
}

/// Accepts every server, as `insecure-skip-tls-verify` asks for.
#[derive(Debug)]
struct AcceptAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
