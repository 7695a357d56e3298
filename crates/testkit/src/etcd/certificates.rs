//! Certificates for one etcd and its clients.

use std::path::{Path, PathBuf};
use std::{fs, io};

use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// A CA and the certificates that it signed, in PEM.
#[derive(Debug)]
pub struct Certificates {
    /// The CA certificate.
    pub ca: String,
    /// The server certificate, for 127.0.0.1.
    pub server: Signed,
    /// A client certificate.
    pub client: Signed,
}

/// A certificate and its private key, in PEM.
#[derive(Debug)]
pub struct Signed {
    /// The certificate.
    pub cert: String,
    /// The key.
    pub key: String,
}

/// The files that etcd reads.
pub(super) struct Files {
    pub(super) ca: PathBuf,
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificates {
    /// New certificates of a new CA.
    pub fn generate() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self {
            ca,
            // etcd's own gateway is a client too, with the server's certificate.
            server: sign(&issuer, &["127.0.0.1"], &[ServerAuth, ClientAuth])?,
            client: sign(&issuer, &[], &[ClientAuth])?,
        })
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<Files> {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text)?;
            Ok::<_, io::Error>(path)
        };
        Ok(Files {
            ca: write("ca.pem", &self.ca)?,
            cert: write("server.pem", &self.server.cert)?,
            key: write("server.key", &self.server.key)?,
        })
    }
}

fn sign(
    issuer: &Issuer<'_, KeyPair>,
    names: &[&str],
    purposes: &[ExtendedKeyUsagePurpose],
) -> Result<Signed, rcgen::Error> {
    let key = KeyPair::generate()?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params.extended_key_usages = purposes.to_vec();
    let cert = params.signed_by(&key, issuer)?.pem();
    Ok(Signed {
        cert,
        key: key.serialize_pem(),
    })
}
