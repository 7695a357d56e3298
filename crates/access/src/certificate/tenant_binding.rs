//! Binds a certificate to one particular tenant rather than to a tenant name, which can be
//! reused after the tenant was deleted.
//!
//! The server's own CA writes the tenant's UID into every certificate that it issues for a
//! tenant, as a URI among the subject alternative names: `urn:insula:tenant:{uid}`. The
//! subject is not used for this, because certificate requests choose it.

use insula_core::{Space, TenantBinding};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::CertificateError;

/// Prefix of all URIs that are reserved for Insula.
const RESERVED_PREFIX: &str = "urn:insula:";

/// Prefix of the URI that holds a tenant's UID.
const TENANT_PREFIX: &str = "urn:insula:tenant:";

/// Upper bound on a UID's length. The server's own UIDs have 36 characters.
const MAX_UID_LENGTH: usize = 64;

/// Returns the URI that binds a certificate to the tenant with this UID, or `None` if the
/// text cannot be a UID.
pub(crate) fn uri(uid: &str) -> Option<String> {
    is_uid(uid).then(|| format!("{TENANT_PREFIX}{uid}"))
}

/// Determines what binds a certificate to its tenant.
///
/// A certificate that names a tenant without a UID comes from another CA, and belongs to the
/// tenant that existed when its validity began. The system is never recreated, so its name
/// is enough. A certificate that names no tenant is not bound to one either: the server's
/// configuration decides where its user belongs.
pub(super) fn read(
    certificate: &X509Certificate<'_>,
    tenant: Option<&Space>,
) -> Result<TenantBinding, CertificateError> {
    let mut own = own_uris(certificate)?.into_iter();
    let named = tenant.is_some_and(|space| !space.is_system());
    match (own.next(), own.next()) {
        (Some(uri), None) => {
            let uid = uri.strip_prefix(TENANT_PREFIX).filter(|uid| is_uid(uid));
            uid.map(|uid| TenantBinding::Uid(uid.into()))
                .ok_or(CertificateError::TenantBinding)
        }
        (None, _) if named => Ok(TenantBinding::At(
            certificate.validity().not_before.timestamp(),
        )),
        (None, _) => Ok(TenantBinding::Name),
        (Some(_), Some(_)) => Err(CertificateError::TenantBinding),
    }
}

/// Returns the URIs reserved for Insula. Schemes and namespaces of URNs are case-insensitive:
/// other spellings are included, so that they are rejected instead of ignored.
fn own_uris<'a>(certificate: &'a X509Certificate<'_>) -> Result<Vec<&'a str>, CertificateError> {
    let names = certificate.subject_alternative_name();
    let names = names.map_err(|_| CertificateError::TenantBinding)?;
    let names = names.into_iter().flat_map(|of| &of.value.general_names);
    let mut own = Vec::new();
    for name in names {
        match name {
            GeneralName::URI(uri)
                if uri
                    .get(..RESERVED_PREFIX.len())
                    .is_some_and(|begin| begin.eq_ignore_ascii_case(RESERVED_PREFIX)) =>
            {
                own.push(*uri);
            }
            // It could have been a reserved URI.
            GeneralName::Invalid(..) => return Err(CertificateError::TenantBinding),
            _ => {}
        }
    }
    Ok(own)
}

fn is_uid(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MAX_UID_LENGTH).contains(&text.len()) && text.bytes().all(sign)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair, SanType};

    use super::*;
    use crate::certificate;

    const BEGAN: i64 = 1_700_000_000;

    fn parameters(tenant: &str) -> CertificateParams {
        let mut parameters = CertificateParams::default();
        let name = &mut parameters.distinguished_name;
        name.push(DnType::CommonName, "alice");
        if !tenant.is_empty() {
            name.push(DnType::OrganizationName, format!("tenant:{tenant}"));
        }
        let began = std::time::UNIX_EPOCH + std::time::Duration::from_secs(BEGAN as u64);
        parameters.not_before = began.into();
        parameters
    }

    fn binding_of(parameters: &CertificateParams) -> Result<TenantBinding, CertificateError> {
        let made = parameters.self_signed(&KeyPair::generate().unwrap());
        certificate::read(made.unwrap().der()).map(|credential| credential.tenant_binding)
    }

    #[test]
    fn certificate_is_bound_to_a_uid_or_to_its_start_of_validity() {
        let uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let own = format!("urn:insula:tenant:{uid}");
        let bound = TenantBinding::Uid(uid.into());
        for (tenant, uris, expected) in [
            ("t1", &[][..], Ok(TenantBinding::At(BEGAN))),
            ("", &[], Ok(TenantBinding::Name)),
            ("", &[own.as_str()], Ok(bound.clone())),
            ("system", &[], Ok(TenantBinding::Name)),
            ("t1", &[own.as_str()], Ok(bound.clone())),
            ("system", &[own.as_str()], Ok(bound.clone())),
            // Other URIs are ignored.
            (
                "t1",
                &["spiffe://a/b", "urn:b"],
                Ok(TenantBinding::At(BEGAN)),
            ),
            ("t1", &["spiffe://a/b", own.as_str()], Ok(bound)),
            (
                "t1",
                &["urn:insula:tenant:a", "urn:insula:tenant:b"],
                Err(CertificateError::TenantBinding),
            ),
            (
                "t1",
                &[own.as_str(), own.as_str()],
                Err(CertificateError::TenantBinding),
            ),
            (
                "t1",
                &["urn:insula:tenant:"],
                Err(CertificateError::TenantBinding),
            ),
            (
                "t1",
                &["urn:insula:tenant:a b"],
                Err(CertificateError::TenantBinding),
            ),
            (
                "t1",
                &["urn:insula:tenant:a/b"],
                Err(CertificateError::TenantBinding),
            ),
            (
                "t1",
                &["urn:insula:tenant:a?b"],
                Err(CertificateError::TenantBinding),
            ),
            (
                "t1",
                &["URN:insula:tenant:a"],
                Err(CertificateError::TenantBinding),
            ),
            (
                "t1",
                &["urn:INSULA:tenant:a"],
                Err(CertificateError::TenantBinding),
            ),
            (
                "t1",
                &["urn:insula:space:a"],
                Err(CertificateError::TenantBinding),
            ),
            (
                "system",
                &["urn:insula:"],
                Err(CertificateError::TenantBinding),
            ),
        ] {
            let mut parameters = parameters(tenant);
            let uris = uris.iter();
            let sans = uris.map(|&uri| SanType::URI(uri.try_into().unwrap()));
            parameters.subject_alt_names = sans.collect();
            assert_eq!(binding_of(&parameters), expected, "{tenant} {parameters:?}");
        }
    }

    #[test]
    fn alternative_names_of_other_types_do_not_bind() {
        let mut parameters = parameters("t1");
        let own = "urn:insula:tenant:a";
        parameters.subject_alt_names = vec![
            SanType::DnsName(own.try_into().unwrap()),
            SanType::Rfc822Name(own.try_into().unwrap()),
        ];
        assert_eq!(binding_of(&parameters), Ok(TenantBinding::At(BEGAN)));
    }

    #[test]
    fn malformed_alternative_names_reject_the_certificate() {
        let names =
            |content: &[u8]| CustomExtension::from_oid_content(&[2, 5, 29, 17], content.to_vec());
        let uri = b"urn:insula:tenant:a";
        let good = [&[0x30, 21, 0x86, 19][..], uri].concat();
        // Not ASCII, which a URI must be.
        let mut wild = good.clone();
        wild[4] = 0xff;
        let cut = good[..good.len() - 1].to_vec();
        for (extensions, expected) in [
            (vec![names(&good)], Ok(TenantBinding::Uid("a".into()))),
            (
                vec![names(&good), names(&good)],
                Err(CertificateError::TenantBinding),
            ),
            (vec![names(&wild)], Err(CertificateError::TenantBinding)),
            (vec![names(&cut)], Err(CertificateError::TenantBinding)),
            (
                vec![names(b"nonsense")],
                Err(CertificateError::TenantBinding),
            ),
        ] {
            let mut parameters = parameters("t1");
            parameters.custom_extensions = extensions;
            assert_eq!(binding_of(&parameters), expected, "{parameters:?}");
        }
    }

    #[test]
    fn invalid_uid_yields_no_uri() {
        assert_eq!(uri("a-1").as_deref(), Some("urn:insula:tenant:a-1"));
        let long = "a".repeat(MAX_UID_LENGTH + 1);
        for bad in ["", "a b", "ä", "a:b", &long] {
            assert_eq!(uri(bad), None, "{bad}");
        }
    }
}
