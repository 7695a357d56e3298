//! What is on a certificate.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::SystemTime;

use rcgen::PublicKeyData;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use crate::certificate::time;

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
        let names = certificate.subject_alternative_name().ok()?;
        let names = names.into_iter().flat_map(|of| &of.value.general_names);
        // That of a client, which says whose tenant's it is, and no server's name.
        let names = names.filter(|name| !matches!(name, GeneralName::URI(_)));
        let names: Option<_> = names.map(text).collect();
        Some(Self {
            names: names?,
            until: time(certificate.validity().not_after)?,
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
