//! What is on a certificate.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::PublicKeyData;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

/// What an authority wrote on a certificate of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The DNS names and IP addresses of the server, if it is one.
    pub names: BTreeSet<String>,
    /// Until when it holds.
    pub until: SystemTime,
    public_key: Vec<u8>,
}

impl Issued {
    /// Whether it was issued for that key.
    pub fn is_for(&self, key: &impl PublicKeyData) -> bool {
        self.public_key == key.der_bytes()
    }

    pub(super) fn of(certificate: &X509Certificate<'_>) -> Option<Self> {
        let names = match certificate.subject_alternative_name().ok()? {
            Some(extension) => extension.value.general_names.iter().map(text).collect(),
            None => Some(BTreeSet::new()),
        };
        let until = certificate.validity().not_after.timestamp();
        let until = Duration::from_secs(until.try_into().ok()?);
        Some(Self {
            names: names?,
            until: SystemTime::UNIX_EPOCH + until,
            public_key: certificate.public_key().subject_public_key.data.to_vec(),
        })
    }
}

fn text(name: &GeneralName<'_>) -> Option<String> {
    match *name {
        GeneralName::DNSName(name) => Some(name.to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
            Some(v4.or_else(|_| v6()).ok()?.to_string())
        }
        _ => None,
    }
}
