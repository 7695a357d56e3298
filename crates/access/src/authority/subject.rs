//! The subject of a client certificate.

use insula_core::{Space, TenantBinding};
use rcgen::SigningKey;
use yasna::DERWriterSeq;
use yasna::models::ObjectIdentifier;

use crate::certificate::{self, CertificateError};
use crate::credential::{Credential, TENANT_PREFIX};

/// The subject of a client certificate, as [`certificate::read`](crate::certificate::read)
/// reads it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The user's name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The space that the user belongs to, if the certificate should name it.
    pub tenant: Option<Space>,
    /// The UID of the tenant that owns the space: the certificate becomes invalid with that
    /// tenant. Set by the issuer; requests cannot carry it.
    pub tenant_uid: Option<Box<str>>,
}

/// Index of the subject in a certificate's body, after version, serial number, algorithm,
/// issuer and validity.
const IN_CERTIFICATE: usize = 5;

/// Index of the subject in a request's body, after the version.
const IN_REQUEST: usize = 1;

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

impl Subject {
    /// Reads the subject of a certificate in PEM.
    pub fn read(certificate_pem: &str) -> Result<Self, CertificateError> {
        let pem = pem::parse(certificate_pem).map_err(|_| CertificateError::Malformed)?;
        certificate::read(pem.contents()).map(Self::from)
    }

    /// Replaces the subject of a certificate, and signs it again.
    pub(super) fn put_on_certificate(
        &self,
        der: &[u8],
        key: &impl SigningKey,
    ) -> Result<Vec<u8>, rcgen::Error> {
        self.put(der, IN_CERTIFICATE, key)
    }

    /// Replaces the subject of a request, and signs it again.
    pub(super) fn put_on_request(
        &self,
        der: &[u8],
        key: &impl SigningKey,
    ) -> Result<Vec<u8>, rcgen::Error> {
        self.put(der, IN_REQUEST, key)
    }

    /// rcgen writes one value per attribute type, but a user with two groups needs two
    /// organizations. So the subject is replaced after rcgen has encoded the rest.
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
            tenant_uid: match credential.tenant_binding {
                TenantBinding::Uid(uid) => Some(uid),
                TenantBinding::Name | TenantBinding::At(_) => None,
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

/// Splits a DER sequence into its elements.
fn parts(der: &[u8]) -> Result<Vec<Vec<u8>>, rcgen::Error> {
    let parts = yasna::parse_der(der, |reader| {
        reader.collect_sequence_of(|reader| reader.read_der())
    });
    parts.map_err(|_| rcgen::Error::CouldNotParseCertificate)
}
