//! Who may say that a certificate is to be signed, and who may sign.

use insula_access::rbac::ResourceAct;
use insula_kinds::{Object, Value, kinds};

use super::Change;
use crate::authorize::Granted;
use crate::registry::Registry;
use crate::status::{Refusal, Result};

/// Refuses who approves or signs for a signer that they do not answer for.
pub async fn check(registry: &Registry, by: &Granted, change: Change<'_>) -> Result<()> {
    let requests = kinds().find("certificates.k8s.io", "v1", "certificatesigningrequests");
    if Some(change.address.kind) != requests {
        return Ok(());
    }
    let verb = match change.subresource {
        Some("approval") if decisions(change.old) != decisions(Some(change.new)) => "approve",
        Some("status") if certificate(change.old) != certificate(Some(change.new)) => "sign",
        _ => return Ok(()),
    };
    let signer = change
        .new
        .get("spec")
        .and_then(|spec| spec.get("signerName"));
    let signer = signer.and_then(Value::as_str).unwrap_or("");
    let domain = signer.split('/').next().unwrap_or("");
    for name in [signer, &format!("{domain}/*")] {
        let act = ResourceAct {
            verb,
            group: "certificates.k8s.io",
            resource: "signers",
            subresource: None,
            namespace: None,
            name: Some(name),
        };
        if by.may(registry, act).await? {
            return Ok(());
        }
    }
    let address = change.address;
    let why = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
    Err(Refusal::not_allowed(address.of(), &address.name, &why))
}

/// What was decided about a request.
fn decisions(request: Option<&Object>) -> Vec<&str> {
    let conditions = request
        .and_then(|request| request.get("status"))
        .and_then(|status| status.get("conditions"))
        .and_then(Value::as_array);
    let types = conditions.into_iter().flatten();
    let types = types.filter_map(|one| one.get("type").and_then(Value::as_str));
    types
        .filter(|one| matches!(*one, "Approved" | "Denied"))
        .collect()
}

fn certificate(request: Option<&Object>) -> Option<&Value> {
    let status = request?.get("status")?;
    status.get("certificate").filter(|value| !value.is_null())
}
