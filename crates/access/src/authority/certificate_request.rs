//! Certificate signing requests.

use rcgen::{CertificateParams, DistinguishedName, KeyPair, SubjectPublicKeyInfo};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};

use super::{Subject, to_pem};
use crate::certificate::{self, CertificateError};

/// A request for a client certificate, signed with the key it was created for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The requested subject. The CA decides what it grants. Only the subject is granted: other
    /// names and extensions in a request never become part of a certificate, so a request cannot
    /// bind itself to a tenant's UID.
    pub subject: Subject,
    /// The types of the requested alternative names, for signers that refuse some.
    pub alternative_names: Vec<AlternativeName>,
    /// The key to certify.
    pub public_key: SubjectPublicKeyInfo,
}

/// The type of a requested alternative name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlternativeName {
    /// A DNS name.
    Dns,
    /// An email address.
    Email,
    /// An IP address.
    Ip,
    /// A URI.
    Uri,
    /// A name of another type, or one that cannot be parsed.
    Other,
}

/// Why a certificate signing request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateRequestError {
    /// It is not a certificate signing request.
    #[error("it is not a certificate signing request in PEM")]
    Malformed,
    /// The requester has not proved possession of the key.
    #[error("it is not signed with its own key")]
    Signature,
    /// The type of key is not supported.
    #[error("its type of key is not supported")]
    Key,
    /// The subject is invalid.
    #[error(transparent)]
    Subject(#[from] CertificateError),
}

/// PEM labels of a request; the second is a legacy name.
const TAGS: [&str; 2] = ["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"];

impl CertificateRequest {
    /// Creates a request, in PEM.
    pub fn create_pem(subject: &Subject, key: &KeyPair) -> Result<String, rcgen::Error> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        let made = parameters.serialize_request(key)?;
        let der = subject.put_on_request(made.der(), key)?;
        Ok(to_pem(TAGS[0], der))
    }

    /// Parses a request and verifies that it is signed with its own key.
    pub fn from_pem(pem: &str) -> Result<Self, CertificateRequestError> {
        let pem = pem::parse(pem).map_err(|_| CertificateRequestError::Malformed)?;
        if !TAGS.contains(&pem.tag()) {
            return Err(CertificateRequestError::Malformed);
        }
        let (rest, request) = X509CertificationRequest::from_der(pem.contents())
            .map_err(|_| CertificateRequestError::Malformed)?;
        if !rest.is_empty() {
            return Err(CertificateRequestError::Malformed);
        }
        let signed = request.verify_signature();
        signed.map_err(|_| CertificateRequestError::Signature)?;
        let info = &request.certification_request_info;
        let public_key = SubjectPublicKeyInfo::from_der(info.subject_pki.raw);
        Ok(Self {
            subject: certificate::read_name(&info.subject)?.into(),
            alternative_names: alternative_names(&request),
            public_key: public_key.map_err(|_| CertificateRequestError::Key)?,
        })
    }
}

fn alternative_names(request: &X509CertificationRequest<'_>) -> Vec<AlternativeName> {
    let mut names = Vec::new();
    for extension in request.requested_extensions().into_iter().flatten() {
        match extension {
            ParsedExtension::SubjectAlternativeName(of) => {
                names.extend(of.general_names.iter().map(AlternativeName::of));
            }
            ParsedExtension::ParseError { .. } => names.push(AlternativeName::Other),
            _ => {}
        }
    }
    names
}

impl AlternativeName {
    fn of(name: &GeneralName<'_>) -> Self {
        match name {
            GeneralName::DNSName(_) => Self::Dns,
            GeneralName::RFC822Name(_) => Self::Email,
            GeneralName::IPAddress(_) => Self::Ip,
            GeneralName::URI(_) => Self::Uri,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use insula_core::Space;
    use rcgen::{PublicKeyData, SanType};

    use super::*;

    fn subject(groups: &[&str], tenant: Option<&str>) -> Subject {
        Subject {
            user: "alice".to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            tenant: tenant.map(|name| Space::parse(name).unwrap()),
            tenant_uid: None,
        }
    }

    #[test]
    fn request_round_trips_its_subject() {
        let key = KeyPair::generate().unwrap();
        for subject in [
            subject(&[], None),
            subject(&["a", "b", "c"], None),
            subject(&["a"], Some("t1")),
        ] {
            let pem = CertificateRequest::create_pem(&subject, &key).unwrap();
            let read = CertificateRequest::from_pem(&pem).unwrap();
            assert_eq!(read.subject, subject);
            assert_eq!(read.public_key.der_bytes(), key.der_bytes());
        }
    }

    #[test]
    fn request_cannot_bind_itself_to_a_tenant() {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        let uri = "urn:insula:tenant:u-1".try_into().unwrap();
        parameters.subject_alt_names = vec![rcgen::SanType::URI(uri)];
        let wanted = subject(&["a"], Some("t1"));
        let made = parameters.serialize_request(&key).unwrap();
        let der = wanted.put_on_request(made.der(), &key).unwrap();
        let read = CertificateRequest::from_pem(&to_pem(TAGS[0], der)).unwrap();
        assert_eq!(read.subject, wanted);
        // The UID is not written into requests that Insula creates either.
        let bound = Subject {
            tenant_uid: Some("u-1".into()),
            ..wanted.clone()
        };
        let read =
            CertificateRequest::from_pem(&CertificateRequest::create_pem(&bound, &key).unwrap())
                .unwrap();
        assert_eq!(read.subject, wanted);
    }

    #[test]
    fn types_of_requested_alternative_names_are_read() {
        use AlternativeName::{Dns, Email, Ip, Uri};
        let key = KeyPair::generate().unwrap();
        let address = std::net::IpAddr::from([10, 0, 0, 1]);
        for (names, types) in [
            (vec![], vec![]),
            (vec![SanType::DnsName("a.b".try_into().unwrap())], vec![Dns]),
            (
                vec![
                    SanType::IpAddress(address),
                    SanType::Rfc822Name("a@b".try_into().unwrap()),
                    SanType::URI("urn:x".try_into().unwrap()),
                ],
                vec![Ip, Email, Uri],
            ),
        ] {
            let mut parameters = CertificateParams::default();
            parameters.distinguished_name = DistinguishedName::new();
            parameters.subject_alt_names = names;
            let made = parameters.serialize_request(&key).unwrap();
            let der = subject(&[], None).put_on_request(made.der(), &key).unwrap();
            let read = CertificateRequest::from_pem(&to_pem(TAGS[0], der)).unwrap();
            assert_eq!(read.alternative_names, types);
        }
    }

    #[test]
    fn forged_request_is_rejected() {
        let key = KeyPair::generate().unwrap();
        let pem = CertificateRequest::create_pem(&subject(&["a"], None), &key).unwrap();
        let mut der = pem::parse(&pem).unwrap().into_contents();
        // Another user than the one that was signed.
        let at = der.windows(5).position(|bytes| bytes == b"alice").unwrap();
        der[at] = b'A';
        let changed = pem::encode(&pem::Pem::new(TAGS[0], der.clone()));
        let certificate = pem::encode(&pem::Pem::new("CERTIFICATE", der));
        for (text, error) in [
            ("", CertificateRequestError::Malformed),
            (certificate.as_str(), CertificateRequestError::Malformed),
            (&changed, CertificateRequestError::Signature),
        ] {
            assert_eq!(CertificateRequest::from_pem(text), Err(error));
        }
    }

    #[test]
    fn request_without_a_user_is_rejected() {
        let key = KeyPair::generate().unwrap();
        let no_user = Subject {
            user: String::new(),
            ..subject(&["a"], None)
        };
        let pem = CertificateRequest::create_pem(&no_user, &key).unwrap();
        let refused = CertificateRequestError::Subject(CertificateError::NoCommonName);
        assert_eq!(CertificateRequest::from_pem(&pem), Err(refused));
    }
}
