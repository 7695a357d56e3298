//! The certificates that a client trusts.

use std::collections::HashSet;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

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

    /// Adds those of the certificates that rustls can parse.
    pub fn add(&mut self, certificates: impl IntoIterator<Item = CertificateDer<'static>>) {
        for certificate in certificates {
            if self.anchors.add(certificate.clone()).is_ok() {
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
