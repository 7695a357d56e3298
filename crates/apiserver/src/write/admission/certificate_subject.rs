//! CertificateSubjectRestriction: no certificate makes its holder a member of `system:masters`,
//! who has all rights everywhere, because nothing takes a certificate back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_access::CertificateRequest;
use insula_core::MASTERS;
use insula_kinds::Value;

use super::Admission;
use crate::status::{Result, StatusError};

/// The signer of certificates that clients of the server show.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Refuses the request of such a certificate.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    let text = |member: &str| {
        let value = admission
            .object
            .get("spec")
            .and_then(|spec| spec.get(member));
        value.and_then(Value::as_str).unwrap_or("")
    };
    if text("signerName") != CLIENT_SIGNER {
        return Ok(());
    }
    let pem = STANDARD.decode(text("request")).unwrap_or_default();
    // Validation and the signer refuse what cannot be parsed.
    let request = CertificateRequest::from_pem(&String::from_utf8_lossy(&pem));
    let groups = request.map_or_else(|_| Vec::new(), |request| request.subject.groups);
    if !groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
    let address = admission.address;
    Err(StatusError::not_allowed(address.of(), &address.name, &why))
}
