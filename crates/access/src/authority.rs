//! The certificate authority.

mod certificate_request;
mod issued_certificate;
mod subject;

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;

pub use self::certificate_request::{AlternativeName, CertificateRequest, CertificateRequestError};
pub use self::issued_certificate::IssuedCertificate;
pub use self::subject::Subject;
use crate::certificate::{self, Validity, tenant_binding};

/// A CA: its certificate and its private key. `Debug` prints neither.
pub struct Authority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Why a CA cannot be used, or cannot issue a certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The CA's certificate is unusable.
    #[error("the CA's certificate is not a CA certificate in PEM")]
    Certificate,
    /// The CA's key is unusable.
    #[error("the CA's key is not a private key in PEM")]
    Key,
    /// The CA's key belongs to another certificate.
    #[error("the CA's key does not match its certificate")]
    Mismatch,
    /// A server name cannot appear in a certificate.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Name(String),
    /// The text that should bind the certificate to a tenant is not a UID.
    #[error("{0:?} is not the UID of a tenant")]
    Uid(Box<str>),
    /// Creating or signing the certificate failed.
    #[error("a certificate could not be created")]
    Issue(#[from] rcgen::Error),
}

impl Authority {
    /// Creates a CA with a new key.
    pub fn generate(name: &str, validity: Validity) -> Result<Self, AuthorityError> {
        Self::certify(name, KeyPair::generate()?, validity)
    }

    /// Creates a CA with an existing key.
    pub fn generate_with_key(
        name: &str,
        key_pem: &str,
        validity: Validity,
    ) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(key_pem).map_err(|_| AuthorityError::Key)?;
        Self::certify(name, key, validity)
    }

    fn certify(name: &str, key: KeyPair, validity: Validity) -> Result<Self, AuthorityError> {
        let mut parameters = parameters(validity)?;
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let certificate_pem = parameters.self_signed(&key)?.pem();
        let issuer = Issuer::new(parameters, key);
        Ok(Self {
            certificate_pem,
            issuer,
        })
    }

    /// Loads a CA from its certificate and key.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, AuthorityError> {
        let der = pem::parse(certificate_pem).map_err(|_| AuthorityError::Certificate)?;
        let parsed = X509Certificate::from_der(der.contents());
        let (_, certificate) = parsed.map_err(|_| AuthorityError::Certificate)?;
        if !certificate.is_ca() {
            return Err(AuthorityError::Certificate);
        }
        let key = KeyPair::from_pem(key_pem).map_err(|_| AuthorityError::Key)?;
        if certificate.public_key().subject_public_key.data.as_ref() != key.der_bytes() {
            return Err(AuthorityError::Mismatch);
        }
        let issuer = Issuer::from_ca_cert_pem(certificate_pem, key);
        Ok(Self {
            certificate_pem: certificate_pem.to_owned(),
            issuer: issuer.map_err(|_| AuthorityError::Certificate)?,
        })
    }

    /// Reads a certificate, if this CA issued it.
    pub fn recognise(&self, certificate_pem: &str) -> Option<IssuedCertificate> {
        let own = pem::parse(&self.certificate_pem).ok()?;
        let (_, own) = X509Certificate::from_der(own.contents()).ok()?;
        let der = pem::parse(certificate_pem).ok()?;
        let (_, certificate) = X509Certificate::from_der(der.contents()).ok()?;
        let signed = certificate.verify_signature(Some(own.public_key()));
        signed
            .ok()
            .and_then(|()| IssuedCertificate::of(&certificate))
    }

    /// Returns the validity of the CA's own certificate.
    pub fn validity(&self) -> Result<Validity, AuthorityError> {
        let der = pem::parse(&self.certificate_pem).map_err(|_| AuthorityError::Certificate)?;
        let validity = certificate::validity(der.contents());
        validity.map_err(|_| AuthorityError::Certificate)
    }

    /// The CA's certificate, in PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The CA's private key, in PEM. The caller is responsible for keeping it secret.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a client certificate, in PEM.
    pub fn issue_client(
        &self,
        subject: &Subject,
        public_key: &impl PublicKeyData,
        validity: Validity,
    ) -> Result<String, AuthorityError> {
        let mut parameters = leaf(validity)?;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        // A placeholder: the whole subject is replaced below. With an empty subject, rcgen
        // would mark the alternative names as critical.
        let name = "client";
        parameters.distinguished_name.push(DnType::CommonName, name);
        if let Some(uid) = &subject.tenant_uid {
            let uri = tenant_binding::uri(uid).ok_or_else(|| AuthorityError::Uid(uid.clone()))?;
            parameters.subject_alt_names = vec![SanType::URI(uri.try_into()?)];
        }
        let made = parameters.signed_by(public_key, &self.issuer)?;
        let der = subject.put_on_certificate(made.der(), self.issuer.key())?;
        Ok(to_pem("CERTIFICATE", der))
    }

    /// Issues a server certificate for these DNS names and IP addresses, in PEM.
    pub fn issue_server(
        &self,
        names: &[String],
        public_key: &impl PublicKeyData,
        validity: Validity,
    ) -> Result<String, AuthorityError> {
        let mut parameters = leaf(validity)?;
        for name in names {
            let one = CertificateParams::new([name.clone()]);
            let one = one.map_err(|_| AuthorityError::Name(name.clone()))?;
            parameters.subject_alt_names.extend(one.subject_alt_names);
        }
        let name = "insula";
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        Ok(parameters.signed_by(public_key, &self.issuer)?.pem())
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(****)")
    }
}

/// Encodes PEM with LF line endings, like all other files of Insula.
fn to_pem(tag: &str, der: Vec<u8>) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(tag, der), config)
}

fn leaf(validity: Validity) -> Result<CertificateParams, AuthorityError> {
    let mut parameters = parameters(validity)?;
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(parameters)
}

fn parameters(validity: Validity) -> Result<CertificateParams, AuthorityError> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.not_before = validity.from.into();
    parameters.not_after = validity.until.into();
    parameters.serial_number = Some(serial()?);
    Ok(parameters)
}

/// Random, because serial numbers of one CA must be unique. The first bit is cleared and the
/// second set, which keeps the number positive and its length fixed.
fn serial() -> Result<SerialNumber, AuthorityError> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| rcgen::Error::RingUnspecified)?;
    bytes[0] = bytes[0] & 0x3f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use insula_core::{CREDENTIAL_ID, CredentialRef, Proof, Space, TenantBinding};

    use super::*;
    use crate::certificate::seconds;
    use crate::credential::Credential;

    fn authority() -> Authority {
        Authority::generate("test-ca", day()).unwrap()
    }

    fn day() -> Validity {
        Validity::starting(SystemTime::now(), Duration::from_secs(86_400))
    }

    fn der(pem: &str) -> Vec<u8> {
        pem::parse(pem).unwrap().into_contents()
    }

    #[test]
    fn client_certificate_round_trips_its_subject_with_any_number_of_groups() {
        let authority = authority();
        let key = KeyPair::generate().unwrap();
        let validity = day();
        let began = validity.from.duration_since(SystemTime::UNIX_EPOCH);
        let began = TenantBinding::At(began.unwrap().as_secs().try_into().unwrap());
        for (groups, tenant, uid, tenant_binding) in [
            (&[][..], None, None, TenantBinding::Name),
            (
                &["system:masters"],
                Some("system"),
                None,
                TenantBinding::Name,
            ),
            (&["a", "b", "c", "ä", "a"], Some("t1"), None, began),
            (
                &["a"],
                Some("t1"),
                Some("u-1"),
                TenantBinding::Uid("u-1".into()),
            ),
            (
                &["a", "b"],
                None,
                Some("u-1"),
                TenantBinding::Uid("u-1".into()),
            ),
        ] {
            let subject = Subject {
                user: "alice".to_owned(),
                groups: groups
                    .iter()
                    .map(|&group: &&str| group.to_owned())
                    .collect(),
                tenant: tenant.map(|name| Space::parse(name).unwrap()),
                tenant_uid: uid.map(Box::from),
            };
            let pem = authority.issue_client(&subject, &key, validity).unwrap();
            let der = der(&pem);
            assert_eq!(Subject::read(&pem).as_ref(), Ok(&subject));
            assert!(authority.recognise(&pem).unwrap().names.is_empty());
            let credential = certificate::read(&der).unwrap();
            let id = credential.extra[CREDENTIAL_ID][0].clone();
            let fingerprint = id.strip_prefix("X509SHA256=").unwrap();
            let begins = certificate::validity(&der).unwrap();
            let reference = CredentialRef {
                id: fingerprint.into(),
                twin: certificate::twin_fingerprint(&der).map(Into::into),
                // What the CA backdates for slow clocks does not count for a tenant's own.
                issued: Some(seconds(begins.from) + if uid.is_some() { 300 } else { 0 }),
                expires: Some(seconds(begins.until)),
                ..CredentialRef::default()
            };
            let expected = Credential {
                user: subject.user,
                uid: None,
                groups: subject.groups,
                extra: [(CREDENTIAL_ID.to_owned(), vec![id])].into(),
                tenant: subject.tenant,
                tenant_binding,
                proof: Proof::Certificate,
                reference,
            };
            assert_eq!(credential, expected);
            assert!(!pem.contains('\r'), "{pem:?}");
            let (_, issued) = X509Certificate::from_der(&der).unwrap();
            let ca = self::der(authority.certificate_pem());
            let (_, ca) = X509Certificate::from_der(&ca).unwrap();
            issued.verify_signature(Some(ca.public_key())).unwrap();
            assert!(issued.validity().is_valid());
            assert_eq!(issued.issuer(), ca.subject());
            let names = issued.subject_alternative_name().unwrap();
            assert!(names.is_none_or(|names| !names.critical));
        }
    }

    #[test]
    fn ca_is_loaded_as_created_and_invalid_ones_are_rejected() {
        let (one, two) = (authority(), authority());
        let read = |certificate: &str, key: &str| Authority::from_pem(certificate, key).err();
        let (certificate, key) = (one.certificate_pem(), one.key_pem());
        assert!(read(certificate, &key).is_none());
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        let long = Authority::generate("long", Validity { until, ..day() }).unwrap();
        assert_eq!(long.validity().unwrap().until, until);
        let names = ["localhost".to_owned(), "10.0.0.1".to_owned()];
        let leaf_key = KeyPair::generate().unwrap();
        let leaf = one.issue_server(&names, &leaf_key, day()).unwrap();
        let leaf_key = leaf_key.serialize_pem();
        for (certificate, key, expected) in [
            ("", key.as_str(), "the CA's certificate is not a CA"),
            (&leaf, &leaf_key, "the CA's certificate is not a CA"),
            (certificate, "", "the CA's key is not a private key"),
            (certificate, &two.key_pem(), "the CA's key does not match"),
        ] {
            let said = read(certificate, key).unwrap().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
        assert_eq!(format!("{one:?}"), "Authority(****)");
    }

    #[test]
    fn ca_recognises_only_certificates_it_issued() {
        let (one, two) = (authority(), authority());
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let names = ["localhost", "10.0.0.1", "::1", "a.b"].map(str::to_owned);
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        let validity = Validity { until, ..day() };
        let pem = one.issue_server(&names, &key, validity).unwrap();
        let issued = one.recognise(&pem).unwrap();
        assert_eq!(issued.names, names.into());
        assert_eq!(issued.until, until);
        assert!(issued.is_for(&key) && !issued.is_for(&other));
        assert_eq!(two.recognise(&pem), None);
        assert_eq!(one.recognise("nonsense"), None);
        let again = Authority::generate_with_key("test-ca", &one.key_pem(), day()).unwrap();
        assert_eq!(again.recognise(&pem), Some(issued));
    }

    #[test]
    fn certificate_is_not_bound_to_an_invalid_uid() {
        let subject = Subject {
            user: "alice".to_owned(),
            groups: Vec::new(),
            tenant: None,
            tenant_uid: Some("a b".into()),
        };
        let key = KeyPair::generate().unwrap();
        let issued = authority().issue_client(&subject, &key, day());
        let said = issued.unwrap_err().to_string();
        assert_eq!(said, "\"a b\" is not the UID of a tenant");
    }

    #[test]
    fn invalid_server_name_is_reported() {
        let key = KeyPair::generate().unwrap();
        let issued = authority().issue_server(&["ä".to_owned()], &key, day());
        let said = issued.unwrap_err().to_string();
        assert_eq!(said, "\"ä\" is neither a DNS name nor an IP address");
    }
}
