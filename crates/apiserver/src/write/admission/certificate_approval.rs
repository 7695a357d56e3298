//! CertificateApproval and CertificateSigning: the rights to approve and to sign certificates.

use insula_access::rbac::ResourceAttributes;
use insula_kinds::{Object, Value, kinds};

use super::{Admission, Change};
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::status::{Result, StatusError};

/// Rejects a caller without the right to approve or sign for the signer.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    match admission.caller {
        Some(caller) => check(admission.registry, caller, admission.change()).await,
        None => Ok(()),
    }
}

async fn check(registry: &Registry, caller: Caller<'_>, change: Change<'_>) -> Result<()> {
    let requests = kinds().find("certificates.k8s.io", "v1", "certificatesigningrequests");
    if change.address.kind.id() != requests {
        return Ok(());
    }
    let verb = match change.subresource {
        Some("approval") => "approve",
        Some("status") if signer_fields(change.old) != signer_fields(Some(change.new)) => "sign",
        _ => return Ok(()),
    };
    let signer = change
        .new
        .get("spec")
        .and_then(|spec| spec.get("signerName"));
    let signer = signer.and_then(Value::as_str).unwrap_or("");
    let domain = signer.split('/').next().unwrap_or("");
    for name in [signer, &format!("{domain}/*")] {
        let attributes = ResourceAttributes {
            verb,
            group: "certificates.k8s.io",
            resource: "signers",
            subresource: None,
            namespace: None,
            name: Some(name),
        };
        if caller.is_allowed(registry, attributes).await? {
            return Ok(());
        }
    }
    let address = change.address;
    let why = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
    Err(StatusError::not_allowed(address.of(), &address.name, &why))
}

/// Returns the status fields that a signer writes: the certificate and the conditions.
fn signer_fields(request: Option<&Object>) -> [Option<&Value>; 2] {
    let status = request.and_then(|request| request.get("status"));
    let empty = |value: &&Value| value.is_null() || *value == &Value::Array(Vec::new());
    ["certificate", "conditions"].map(|member| {
        let value = status.and_then(|status| status.get(member));
        value.filter(|value| !empty(value))
    })
}
