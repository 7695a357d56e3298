//! The certificate authorities that a peer's certificate is verified with.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

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

/// Returns the certificates of the trusted authorities.
pub fn roots(trust: &Trust) -> Result<RootCertStore, InvalidAuthority> {
    let mut roots = RootCertStore::empty();
    let Trust::Authorities(pem) = trust else {
        // The machine's bundle may hold certificates that rustls cannot parse; a peer that
        // needs one of those fails verification.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for authority in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let authority = authority.map_err(|_| InvalidAuthority)?;
        roots.add(authority).map_err(|_| InvalidAuthority)?;
    }
    if roots.is_empty() {
        return Err(InvalidAuthority);
    }
    Ok(roots)
}
