//! Client certificates.

pub(crate) mod tenant_binding;
mod twin;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use insula_core::{CREDENTIAL_ID, CredentialRef, Extra, Proof, TenantBinding};
use ring::digest::{SHA256, digest};
use x509_parser::asn1_rs::{FromDer, Oid, oid};
use x509_parser::certificate::X509Certificate;
use x509_parser::time::ASN1Time;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::credential::{Credential, Membership, TenantError};
pub use twin::twin;

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Start of validity.
    pub from: SystemTime,
    /// End of validity.
    pub until: SystemTime,
}

/// Why a certificate cannot be used as a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The bytes are not one X.509 certificate.
    #[error("it is not an X.509 certificate")]
    Malformed,
    /// The common name is missing or empty.
    #[error("its common name is empty")]
    NoCommonName,
    /// There are several common names, so the user is ambiguous.
    #[error("it has more than one common name")]
    MultipleCommonNames,
    /// A name or organization uses an encoding that is not supported.
    #[error("its subject is not in UTF-8 or ASCII")]
    Encoding,
    /// The user has several UIDs, or an empty one.
    #[error("its subject has several UIDs, or an empty one")]
    Uid,
    /// The alternative names that bind it to a tenant's UID are malformed or ambiguous.
    #[error("the alternative names that bind it to a tenant are malformed")]
    TenantBinding,
    /// The tenant it names is invalid or ambiguous.
    #[error(transparent)]
    Tenant(#[from] TenantError),
}

/// How far validity is backdated, to tolerate clients with slow clocks.
const CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);

impl Validity {
    /// Validity of this length, starting slightly before now.
    pub fn starting(now: SystemTime, length: Duration) -> Self {
        Self {
            from: now - CLOCK_SKEW,
            until: now + length,
        }
    }
}

/// What precedes the fingerprint in the attribute that Kubernetes shows.
const FINGERPRINT_PREFIX: &str = "X509SHA256=";

/// Subject attribute that holds the user's UID, as in Kubernetes.
const UID: Oid<'_> = oid!(1.3.6.1.4.1.57683.2);

/// Reads a certificate's claims: the common name is the user, every organization is a group,
/// and the organization `tenant:{t}` names the tenant.
///
/// The signature is not verified here; the TLS layer does that.
pub fn read(der: &[u8]) -> Result<Credential, CertificateError> {
    let certificate = parse(der)?;
    let mut credential = read_name(certificate.subject())?;
    credential.tenant_binding = tenant_binding::read(&certificate, credential.tenant.as_ref())?;
    let id = fingerprint(der);
    credential.reference = reference(&certificate, &id, &credential.tenant_binding);
    credential.reference.twin = twin_fingerprint(der).map(Into::into);
    let id = vec![format!("{FINGERPRINT_PREFIX}{id}")];
    credential.extra.insert(CREDENTIAL_ID.to_owned(), id);
    Ok(credential)
}

/// Reads the claims of the first certificate in PEM.
pub fn read_pem(pem: &str) -> Result<Credential, CertificateError> {
    let parsed = pem::parse(pem).map_err(|_| CertificateError::Malformed)?;
    read(parsed.contents())
}

/// Names a certificate, with its times.
///
/// The server's own CA backdates certificates for clients with slow clocks. Certificates of a
/// tenant's UID are its own, so their time of issue is known; that of others is the start of
/// their validity.
fn reference(
    certificate: &X509Certificate<'_>,
    id: &str,
    binding: &TenantBinding,
) -> CredentialRef {
    let validity = certificate.validity();
    let backdated = match binding {
        TenantBinding::Uid(_) => CLOCK_SKEW.as_secs() as i64,
        TenantBinding::Name | TenantBinding::At(_) => 0,
    };
    CredentialRef {
        id: id.into(),
        issued: Some(validity.not_before.timestamp() + backdated),
        expires: Some(validity.not_after.timestamp()),
        ..CredentialRef::default()
    }
}

/// Returns the fingerprint of a certificate: its SHA-256 digest in hexadecimal.
pub fn fingerprint(der: &[u8]) -> String {
    crate::hexadecimal(digest(&SHA256, der).as_ref())
}

/// Returns the fingerprint of the [`twin`] of a certificate.
pub fn twin_fingerprint(der: &[u8]) -> Option<String> {
    twin(der).map(|twin| fingerprint(&twin))
}

/// Converts a time to seconds since 1970.
pub fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs() as i64,
        Err(before) => -(before.duration().as_secs() as i64),
    }
}

/// Returns the validity period of a certificate from any issuer.
pub fn validity(der: &[u8]) -> Result<Validity, CertificateError> {
    let certificate = parse(der)?;
    let of = certificate.validity();
    let (from, until) = (time(of.not_before), time(of.not_after));
    Ok(Validity {
        from: from.ok_or(CertificateError::Malformed)?,
        until: until.ok_or(CertificateError::Malformed)?,
    })
}

/// Reads the claims of a subject. The result is not bound to a tenant's UID.
pub(crate) fn read_name(subject: &X509Name<'_>) -> Result<Credential, CertificateError> {
    let names = texts(subject.iter_common_name())?;
    let user = match names[..] {
        [] | [""] => return Err(CertificateError::NoCommonName),
        [user] => user.to_owned(),
        _ => return Err(CertificateError::MultipleCommonNames),
    };
    let uid = match texts(subject.iter_by_oid(&UID))?[..] {
        [] => None,
        [""] => return Err(CertificateError::Uid),
        [uid] => Some(uid.to_owned()),
        _ => return Err(CertificateError::Uid),
    };
    let membership = Membership::from_groups(texts(subject.iter_organization())?)?;
    Ok(Credential {
        user,
        uid,
        groups: membership.groups,
        extra: Extra::new(),
        tenant: membership.tenant,
        tenant_binding: TenantBinding::Name,
        proof: Proof::Certificate,
        reference: CredentialRef::default(),
    })
}

/// Converts a certificate's time.
pub(crate) fn time(time: ASN1Time) -> Option<SystemTime> {
    let seconds = time.timestamp();
    let apart = Duration::from_secs(seconds.unsigned_abs());
    match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(apart),
        _ => SystemTime::UNIX_EPOCH.checked_sub(apart),
    }
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, CertificateError> {
    let (rest, certificate) =
        X509Certificate::from_der(der).map_err(|_| CertificateError::Malformed)?;
    match rest {
        [] => Ok(certificate),
        _ => Err(CertificateError::Malformed),
    }
}

/// Decodes all attributes or fails: a skipped one could have named the tenant.
fn texts<'a, 'der: 'a>(
    attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'der>>,
) -> Result<Vec<&'a str>, CertificateError> {
    attributes
        .map(|attribute| attribute.as_str().map_err(|_| CertificateError::Encoding))
        .collect()
}

#[cfg(test)]
mod tests {
    use insula_core::{NotATenantName, Space};
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    /// Creates a certificate with this subject. rcgen keeps one value per attribute type, so the
    /// second one is pushed under its OID.
    fn certificate(attributes: &[(DnType, DnValue)]) -> Vec<u8> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        for (kind, value) in attributes {
            parameters
                .distinguished_name
                .push(kind.clone(), value.clone());
        }
        let key = KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    /// Returns the start of validity, in seconds since 1970.
    fn beginning(der: &[u8]) -> i64 {
        parse(der).unwrap().validity().not_before.timestamp()
    }

    fn subject(user: &str, organizations: &[&str]) -> Vec<(DnType, DnValue)> {
        let types = [
            DnType::OrganizationName,
            DnType::CustomDnType(vec![2, 5, 4, 10]),
        ];
        assert!(organizations.len() <= types.len());
        let organizations = types.into_iter().zip(organizations);
        let organizations = organizations.map(|(kind, &value)| (kind, value.into()));
        let user = (DnType::CommonName, user.into());
        std::iter::once(user).chain(organizations).collect()
    }

    #[test]
    fn common_name_is_the_user_and_organizations_are_groups_and_tenant() {
        for (user, organizations, groups, tenant) in [
            ("alice", &[][..], &[][..], None),
            ("alice", &["dev"], &["dev"], None),
            ("alice", &["dev", "ops"], &["dev", "ops"], None),
            ("alice", &["tenant:t1"], &[], Some("t1")),
            ("alice", &["dev", "tenant:t1"], &["dev"], Some("t1")),
            ("alice", &["tenant:t1", "dev"], &["dev"], Some("t1")),
            (
                "kubernetes-admin",
                &["system:masters", "tenant:system"],
                &["system:masters"],
                Some("system"),
            ),
            // The user's name never implies a tenant.
            ("system:kube-scheduler", &[], &[], None),
            ("t1:alice", &["dev"], &["dev"], None),
            ("tenant:t1", &[], &[], None),
        ] {
            let der = certificate(&subject(user, organizations));
            let tenant_binding = match tenant {
                None | Some("system") => TenantBinding::Name,
                Some(_) => TenantBinding::At(beginning(&der)),
            };
            let expected = Credential {
                user: user.to_owned(),
                uid: None,
                groups: groups
                    .iter()
                    .map(|&group: &&str| group.to_owned())
                    .collect(),
                extra: Extra::from([(
                    CREDENTIAL_ID.to_owned(),
                    vec![format!("X509SHA256={}", fingerprint(&der))],
                )]),
                tenant: tenant.map(|name| Space::parse(name).unwrap()),
                tenant_binding,
                proof: Proof::Certificate,
                reference: CredentialRef {
                    id: fingerprint(&der).into(),
                    twin: twin_fingerprint(&der).map(Into::into),
                    issued: Some(beginning(&der)),
                    expires: Some(seconds(validity(&der).unwrap().until)),
                    ..CredentialRef::default()
                },
            };
            assert_eq!(read(&der), Ok(expected), "{user} {organizations:?}");
        }
    }

    #[test]
    fn fingerprint_is_the_digest_of_the_whole_certificate() {
        // The output of `sha256sum` for these three bytes.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(fingerprint(b"abc"), expected);
    }

    #[test]
    fn uid_attribute_is_single_and_not_empty() {
        let uid = || DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        let near = || DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 3]);
        let text = |text: &str| DnValue::Utf8String(text.to_owned());
        for (more, expected) in [
            (vec![], Ok(None)),
            (vec![(uid(), text("42"))], Ok(Some("42"))),
            (vec![(near(), text("42"))], Ok(None)),
            (vec![(uid(), text(""))], Err(CertificateError::Uid)),
        ] {
            let der = certificate(&[subject("alice", &["dev"]), more].concat());
            let found = read(&der).map(|credential| credential.uid);
            assert_eq!(found, expected.map(|uid| uid.map(str::to_owned)));
        }
        let one = certificate(&[(DnType::CommonName, "a".into()), (uid(), text("42"))]);
        let two = twice(&one, b"42");
        assert_eq!(read(&two), Err(CertificateError::Uid));
    }

    /// Duplicates the subject attribute with this value. The signature becomes invalid, which
    /// [`read`] does not check.
    fn twice(der: &[u8], value: &[u8]) -> Vec<u8> {
        let fields = |der: &[u8]| -> Vec<Vec<u8>> {
            yasna::parse_der(der, |reader| {
                reader.collect_sequence_of(|reader| reader.read_der())
            })
            .unwrap()
        };
        let whole = |fields: &[Vec<u8>]| {
            yasna::construct_der(|writer| {
                writer.write_sequence(|writer| {
                    for field in fields {
                        writer.next().write_der(field);
                    }
                });
            })
        };
        let mut parts = fields(der);
        let mut body = fields(&parts[0]);
        let mut subject = fields(&body[5]);
        let has = |set: &&Vec<u8>| set.ends_with(value);
        let attribute = subject.iter().find(has).unwrap().clone();
        subject.push(attribute);
        body[5] = whole(&subject);
        parts[0] = whole(&body);
        whole(&parts)
    }

    #[test]
    fn validity_is_read_from_the_certificate() {
        let at = |seconds: i64| time(ASN1Time::from_timestamp(seconds).unwrap()).unwrap();
        let (from, until) = (at(-86_400), at(4_000_000_000));
        assert_eq!(from, SystemTime::UNIX_EPOCH - Duration::from_secs(86_400));
        let mut parameters = CertificateParams::default();
        parameters.not_before = from.into();
        parameters.not_after = until.into();
        let key = KeyPair::generate().unwrap();
        let der = parameters.self_signed(&key).unwrap().der().to_vec();
        assert_eq!(validity(&der), Ok(Validity { from, until }));
        assert_eq!(validity(b"nonsense"), Err(CertificateError::Malformed));
    }

    #[test]
    fn invalid_or_ambiguous_tenant_is_rejected() {
        let bad = TenantError::InvalidName(NotATenantName);
        for (organizations, error) in [
            (&["tenant:"][..], bad),
            (&["tenant:a:b"], bad),
            (&["tenant:all"], bad),
            (&["dev", "tenant:"], bad),
            (&["tenant:t1", "tenant:t2"], TenantError::Multiple),
            (&["tenant:t1", "tenant:system"], TenantError::Multiple),
        ] {
            let der = certificate(&subject("alice", organizations));
            assert_eq!(read(&der), Err(error.into()), "{organizations:?}");
        }
    }

    #[test]
    fn common_name_is_single_and_decodable() {
        let second = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let teletex = DnValue::TeletexString("tenant:t1".try_into().unwrap());
        for (attributes, error) in [
            (vec![], CertificateError::NoCommonName),
            (subject("", &["dev"]), CertificateError::NoCommonName),
            (
                vec![(DnType::CommonName, "a".into()), (second, "b".into())],
                CertificateError::MultipleCommonNames,
            ),
            (
                vec![
                    (DnType::CommonName, "a".into()),
                    (DnType::OrganizationName, teletex),
                ],
                CertificateError::Encoding,
            ),
        ] {
            assert_eq!(
                read(&certificate(&attributes)),
                Err(error),
                "{attributes:?}"
            );
        }
    }

    #[test]
    fn malformed_certificate_is_rejected() {
        let good = certificate(&subject("alice", &[]));
        let longer = [&good[..], &[0]].concat();
        for bad in [&[][..], b"alice", &good[..good.len() - 1], &longer] {
            assert_eq!(read(bad), Err(CertificateError::Malformed));
        }
    }
}
