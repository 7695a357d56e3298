//! The content of an issued certificate.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::SystemTime;

use rcgen::PublicKeyData;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use crate::certificate::time;

/// The content of a certificate that an [`Authority`](super::Authority) issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The DNS names and IP addresses, if it is a server's.
    pub names: BTreeSet<String>,
    /// End of validity.
    pub until: SystemTime,
    public_key: Vec<u8>,
}

impl IssuedCertificate {
    /// Reports whether it was issued for that key.
    pub fn is_for(&self, key: &impl PublicKeyData) -> bool {
        self.public_key == key.der_bytes()
    }

    pub(super) fn of(certificate: &X509Certificate<'_>) -> Option<Self> {
        let names = certificate.subject_alternative_name().ok()?;
        let names = names.into_iter().flat_map(|of| &of.value.general_names);
        // Skip the URI of client certificates, which holds the tenant's UID.
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
