//! The certificates that a client trusts.

use std::collections::HashSet;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{FromDer, X509Version};

/// Trusted certificates, as roots of chains and as certificates of servers.
#[derive(Clone, Debug)]
pub struct Roots {
    anchors: RootCertStore,
    /// The anchors forget the certificates that they come from.
    certificates: HashSet<CertificateDer<'static>>,
}

impl Roots {
    /// Returns those of the certificates that rustls can parse.
    pub fn new(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let mut roots = Self {
            anchors: RootCertStore::empty(),
            certificates: HashSet::new(),
        };
        roots.add(certificates);
        roots
    }

    /// Adds those of the certificates that rustls can parse. One that is no CA's is trusted as the
    /// certificate of a server only: its holder cannot sign others.
    pub fn add(&mut self, certificates: impl IntoIterator<Item = CertificateDer<'static>>) {
        for certificate in certificates {
            let is_usable = match may_sign(&certificate) {
                true => self.anchors.add(certificate.clone()).is_ok(),
                false => RootCertStore::empty().add(certificate.clone()).is_ok(),
            };
            if is_usable {
                self.certificates.insert(certificate);
            }
        }
    }

    /// Returns the anchors of chains, for verifiers of others.
    pub fn into_anchors(self) -> RootCertStore {
        self.anchors
    }

    pub(crate) const fn anchors(&self) -> &RootCertStore {
        &self.anchors
    }

    /// Returns whether a certificate is itself a trusted one, byte by byte.
    pub(crate) fn contains(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.contains(certificate)
    }
}

/// Whether the certificate may sign others, as Go decides it: a CA's, or one from before version 3,
/// which cannot say so.
fn may_sign(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let constraints = parsed.basic_constraints().ok().flatten();
    match constraints {
        Some(constraints) => constraints.value.ca,
        None => parsed.version() != X509Version::V3,
    }
}
