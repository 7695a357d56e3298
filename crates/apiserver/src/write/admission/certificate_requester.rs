//! The requester of a CertificateSigningRequest. It is set after preparation, which drops the
//! client's values.

use insula_core::Principal;
use insula_kinds::{Object, kinds, prepare};
use serde_json::json;

use super::Admission;
use crate::status::Result;

/// Whether this is a new CertificateSigningRequest of a client.
pub fn applies(admission: &Admission<'_>) -> bool {
    let requests = kinds().find("certificates.k8s.io", "v1", "certificatesigningrequests");
    super::is_create(admission) && admission.address.kind.id() == requests
}

/// Records the caller as the requester.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    if let Some(caller) = admission.caller {
        let principal = caller.principal();
        let extra = insula_extra(principal);
        let requester = prepare::Requester {
            username: &principal.user,
            uid: principal.uid.as_deref().unwrap_or(""),
            groups: &principal.groups,
            extra: &extra,
        };
        prepare::set_requester(admission.object, requester);
    }
    Ok(())
}

/// Returns the extra attributes of a principal: those of its credential, and its tenant.
pub fn insula_extra(principal: &Principal) -> Object {
    let entries = principal.extra.iter();
    let mut extra: Object = entries
        .map(|(key, all)| (key.clone(), json!(all)))
        .collect();
    extra.insert(
        "insula.dev/tenant".to_owned(),
        json!([principal.home.to_string()]),
    );
    extra
}
