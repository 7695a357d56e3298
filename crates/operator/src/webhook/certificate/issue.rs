//! Issues CAs and serving certificates, and reads their validity.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub from: SystemTime,
    pub until: SystemTime,
}

/// A certificate with its private key, in PEM.
pub(super) struct Issued {
    pub certificate: String,
    pub key: String,
}

/// The start of validity is this much earlier, for API servers with a slow clock.
pub(super) const BACKDATE: Duration = Duration::from_secs(3600);

/// Creates a CA.
pub(super) fn authority(now: SystemTime, lifetime: Duration) -> Result<Issued, rcgen::Error> {
    let key = KeyPair::generate()?;
    let validity = Validity {
        from: now - BACKDATE,
        until: now + lifetime,
    };
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since_epoch.unwrap_or_default().as_secs();
    // Two CAs of a bundle have different names, so that a client finds the right one at once.
    let mut parameters = parameters(&format!("webhook-ca-{seconds}"), validity);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(Issued {
        certificate: parameters.self_signed(&key)?.pem(),
        key: key.serialize_pem(),
    })
}

/// Issues a serving certificate for DNS names and IP addresses. It ends no later than its CA.
pub(super) fn serving(
    ca: &CertificateDer<'_>,
    ca_key: &str,
    names: &[String],
    now: SystemTime,
    lifetime: Duration,
) -> Result<Issued, rcgen::Error> {
    let issuer = Issuer::from_ca_cert_der(ca, KeyPair::from_pem(ca_key)?)?;
    let ca_until = validity(ca).map_or(now, |validity| validity.until);
    let validity = Validity {
        from: now - BACKDATE,
        until: (now + lifetime).min(ca_until),
    };
    let key = KeyPair::generate()?;
    let mut parameters = parameters("webhook", validity);
    parameters.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(Issued {
        certificate: parameters.signed_by(&key, &issuer)?.pem(),
        key: key.serialize_pem(),
    })
}

fn parameters(name: &str, validity: Validity) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = validity.from.into();
    parameters.not_after = validity.until.into();
    parameters
}

/// Returns the validity of a certificate, or `None` if it cannot be parsed.
pub(super) fn validity(der: &[u8]) -> Option<Validity> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let validity = certificate.validity();
    Some(Validity {
        from: time(validity.not_before)?,
        until: time(validity.not_after)?,
    })
}

/// Returns whether the key belongs to the certificate of a CA.
pub(super) fn is_key_of(ca: &[u8], key_pem: &str) -> bool {
    let (Ok((_, ca)), Ok(key)) = (X509Certificate::from_der(ca), KeyPair::from_pem(key_pem)) else {
        return false;
    };
    ca.is_ca() && ca.public_key().subject_public_key.data.as_ref() == key.public_key_raw()
}

/// Returns whether the CA issued the certificate.
pub(super) fn is_issued_by(certificate: &[u8], ca: &[u8]) -> bool {
    let parsed = (
        X509Certificate::from_der(certificate),
        X509Certificate::from_der(ca),
    );
    let (Ok((_, certificate)), Ok((_, ca))) = parsed else {
        return false;
    };
    certificate.verify_signature(Some(ca.public_key())).is_ok()
}

/// Returns whether a certificate is valid for all of these names.
pub(super) fn has_names(certificate: &[u8], names: &[String]) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let Ok(Some(alternative)) = certificate.subject_alternative_name() else {
        return false;
    };
    let mut present = Vec::new();
    for name in &alternative.value.general_names {
        match *name {
            GeneralName::DNSName(name) => present.push(name.to_owned()),
            GeneralName::IPAddress(octets) => present.extend(address(octets)),
            _ => {}
        }
    }
    names.iter().all(|name| present.contains(name))
}

fn address(octets: &[u8]) -> Option<String> {
    let address = match octets.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
    };
    Some(address.to_string())
}

fn time(time: ASN1Time) -> Option<SystemTime> {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(distance),
        false => SystemTime::UNIX_EPOCH.checked_add(distance),
    }
}
