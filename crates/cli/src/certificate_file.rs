//! Files with certificates in PEM.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::failure::Failure;

/// Reads a file that must exist.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let attempted = format!("cannot read {}", path.display());
    std::fs::read(path).map_err(|error| Failure::new(&attempted, error))
}

/// Reads the certificates in a file, at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let attempted = format!("cannot use {}", path.display());
    parse(&read(path)?).map_err(|why| Failure::new(&attempted, why))
}

/// Parses certificates, at least one.
pub fn parse(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err("no PEM certificates found"),
    }
}
