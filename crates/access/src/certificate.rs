//! Client certificates.

use insula_core::{Extra, Proof, Tie};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::credential::{Credential, Membership, TenantError};

/// Why a certificate is no credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// It is no X.509 certificate.
    #[error("it is no X.509 certificate")]
    Form,
    /// Nobody is named.
    #[error("its common name is empty")]
    Nameless,
    /// Two users are named, and the choice is not ours.
    #[error("it has more than one common name")]
    Several,
    /// A name or organization is in none of the encodings that we read.
    #[error("its subject is not in UTF-8 or ASCII")]
    Encoding,
    /// Its tenant cannot be told.
    #[error(transparent)]
    Tenant(#[from] TenantError),
}

/// What a certificate says: the common name is the user, every organization a group, and
/// the organization `tenant:{t}` the tenant.
///
/// Whether the certificate is genuine is not asked: TLS did.
pub fn read(der: &[u8]) -> Result<Credential, CertificateError> {
    let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::Form)?;
    if !rest.is_empty() {
        return Err(CertificateError::Form);
    }
    read_name(certificate.subject())
}

/// What a certificate with this subject says.
pub(crate) fn read_name(subject: &X509Name<'_>) -> Result<Credential, CertificateError> {
    let names = texts(subject.iter_common_name())?;
    let user = match names[..] {
        [] | [""] => return Err(CertificateError::Nameless),
        [user] => user.to_owned(),
        _ => return Err(CertificateError::Several),
    };
    let membership = Membership::of(texts(subject.iter_organization())?)?;
    Ok(Credential {
        user,
        uid: None,
        groups: membership.groups,
        extra: Extra::new(),
        tenant: membership.tenant,
        tie: Tie::Name,
        proof: Proof::Certificate,
    })
}

/// All of them or an error: what is skipped could have been the tenant.
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

    /// A certificate with this subject. rcgen keeps one value for each type of attribute,
    /// so the second is written under its number.
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
    fn the_common_name_is_the_user_and_organizations_are_groups_and_tenant() {
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
            // The user's name never gives a tenant, whatever it begins with.
            ("system:kube-scheduler", &[], &[], None),
            ("t1:alice", &["dev"], &["dev"], None),
            ("tenant:t1", &[], &[], None),
        ] {
            let der = certificate(&subject(user, organizations));
            let expected = Credential {
                user: user.to_owned(),
                uid: None,
                groups: groups
                    .iter()
                    .map(|&group: &&str| group.to_owned())
                    .collect(),
                extra: Extra::new(),
                tenant: tenant.map(|name| Space::parse(name).unwrap()),
                tie: Tie::Name,
                proof: Proof::Certificate,
            };
            assert_eq!(read(&der), Ok(expected), "{user} {organizations:?}");
        }
    }

    #[test]
    fn a_tenant_that_cannot_be_told_is_refused() {
        let bad = TenantError::Name(NotATenantName);
        for (organizations, error) in [
            (&["tenant:"][..], bad),
            (&["tenant:a:b"], bad),
            (&["tenant:all"], bad),
            (&["dev", "tenant:"], bad),
            (&["tenant:t1", "tenant:t2"], TenantError::Several),
            (&["tenant:t1", "tenant:system"], TenantError::Several),
        ] {
            let der = certificate(&subject("alice", organizations));
            assert_eq!(read(&der), Err(error.into()), "{organizations:?}");
        }
    }

    #[test]
    fn the_user_is_named_once_and_legibly() {
        let second = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let teletex = DnValue::TeletexString("tenant:t1".try_into().unwrap());
        for (attributes, error) in [
            (vec![], CertificateError::Nameless),
            (subject("", &["dev"]), CertificateError::Nameless),
            (
                vec![(DnType::CommonName, "a".into()), (second, "b".into())],
                CertificateError::Several,
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
    fn what_is_no_certificate_is_refused() {
        let good = certificate(&subject("alice", &[]));
        let longer = [&good[..], &[0]].concat();
        for bad in [&[][..], b"alice", &good[..good.len() - 1], &longer] {
            assert_eq!(read(bad), Err(CertificateError::Form));
        }
    }
}
