//! Whom a certificate is for.

use insula_core::{Space, Tie};
use rcgen::SigningKey;
use yasna::DERWriterSeq;
use yasna::models::ObjectIdentifier;

use crate::certificate::{self, CertificateError};
use crate::credential::{Credential, TENANT_PREFIX};

/// Whom a client certificate is for, as [`certificate::read`](crate::certificate::read)
/// reads it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The user's name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The space that the user belongs to, if it is to be named.
    pub tenant: Option<Space>,
    /// The UID of the tenant whose space that is: the certificate dies with it. Whoever
    /// issues the certificate says so; no request does.
    pub tenant_uid: Option<Box<str>>,
}

/// The field of a certificate's body that holds the subject, after version, serial number,
/// algorithm, issuer and validity.
const IN_CERTIFICATE: usize = 5;

/// The field of a request's body that holds the subject, after the version.
const IN_REQUEST: usize = 1;

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

impl Subject {
    /// Whom a certificate in PEM is for.
    pub fn read(certificate_pem: &str) -> Result<Self, CertificateError> {
        let pem = pem::parse(certificate_pem).map_err(|_| CertificateError::Form)?;
        certificate::read(pem.contents()).map(Self::from)
    }

    /// The certificate with this subject, signed again.
    pub(super) fn put_on_certificate(
        &self,
        der: &[u8],
        key: &impl SigningKey,
    ) -> Result<Vec<u8>, rcgen::Error> {
        self.put(der, IN_CERTIFICATE, key)
    }

    /// The request with this subject, signed again.
    pub(super) fn put_on_request(
        &self,
        der: &[u8],
        key: &impl SigningKey,
    ) -> Result<Vec<u8>, rcgen::Error> {
        self.put(der, IN_REQUEST, key)
    }

    /// rcgen writes one value for each type of attribute, and a user with two groups has
    /// two organizations. So the subject is put in afterwards.
    fn put(
        &self,
        der: &[u8],
        field: usize,
        key: &impl SigningKey,
    ) -> Result<Vec<u8>, rcgen::Error> {
        let parts = parts(der)?;
        let [body, algorithm, _signature] = &parts[..] else {
            return Err(rcgen::Error::CouldNotParseCertificate);
        };
        let mut fields = self::parts(body)?;
        let subject = fields.get_mut(field);
        *subject.ok_or(rcgen::Error::CouldNotParseCertificate)? = self.to_der();
        let body = sequence(|writer| {
            for field in &fields {
                writer.next().write_der(field);
            }
        });
        let signature = key.sign(&body)?;
        Ok(sequence(|writer| {
            writer.next().write_der(&body);
            writer.next().write_der(algorithm);
            let bits = signature.len() * 8;
            writer.next().write_bitvec_bytes(&signature, bits);
        }))
    }

    fn to_der(&self) -> Vec<u8> {
        let tenant = self.tenant.as_ref();
        let tenant = tenant.map(|space| format!("{TENANT_PREFIX}{space}"));
        sequence(|writer| {
            write_attribute(writer, COMMON_NAME, &self.user);
            for organization in self.groups.iter().chain(&tenant) {
                write_attribute(writer, ORGANIZATION, organization);
            }
        })
    }
}

impl From<Credential> for Subject {
    fn from(credential: Credential) -> Self {
        Self {
            user: credential.user,
            groups: credential.groups,
            tenant: credential.tenant,
            tenant_uid: match credential.tie {
                Tie::Uid(uid) => Some(uid),
                Tie::Name | Tie::At(_) => None,
            },
        }
    }
}

fn write_attribute(writer: &mut DERWriterSeq<'_>, kind: &[u64], value: &str) {
    writer.next().write_set(|writer| {
        writer.next().write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(kind));
            writer.next().write_utf8_string(value);
        });
    });
}

fn sequence(write: impl FnOnce(&mut DERWriterSeq<'_>)) -> Vec<u8> {
    yasna::construct_der(|writer| writer.write_sequence(write))
}

/// What a sequence is made of.
fn parts(der: &[u8]) -> Result<Vec<Vec<u8>>, rcgen::Error> {
    let parts = yasna::parse_der(der, |reader| {
        reader.collect_sequence_of(|reader| reader.read_der())
    });
    parts.map_err(|_| rcgen::Error::CouldNotParseCertificate)
}
