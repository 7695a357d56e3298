//! CertificateSubjectRestriction: no certificate is issued for the group `system:masters`, which
//! has all rights, because a certificate cannot be revoked.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_access::CertificateRequest;
use insula_core::MASTERS;
use insula_kinds::Value;

use super::Admission;
use crate::status::{Result, StatusError};

/// The signer of client certificates for the API server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Rejects a request for such a certificate.
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
    // Validation and the signer reject a request that cannot be parsed.
    let request = CertificateRequest::from_pem(&String::from_utf8_lossy(&pem));
    let groups = request.map_or_else(|_| Vec::new(), |request| request.subject.groups);
    if !groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
    let address = admission.address;
    Err(StatusError::not_allowed(address.of(), &address.name, &why))
}
