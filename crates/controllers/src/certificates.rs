//! Signs approved certificate signing requests for client certificates of users and nodes.
//!
//! A certificate belongs to the space of its request, whatever the request says: it names that
//! space as its tenant and is bound to the UID of the current tenant, and a request that names
//! another tenant is refused. The API server decides who may approve; this controller decides what
//! is never signed, approved or not.

mod signer;

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_access::{Authority, CertificateRequest, Subject, Validity, resolve_principal};
use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Result;
use insula_apiserver::write::{Modified, Modify, modify};
use insula_core::Space;
use insula_kinds::{Object, Value, time};
use serde_json::json;

use signer::Signer;

/// The longest validity of a certificate, and the default.
const MAX_VALIDITY: Duration = Duration::from_secs(365 * 86_400);

/// The shortest validity that can be requested.
const MIN_VALIDITY: Duration = Duration::from_secs(600);

/// Why a request is not signed, as its status shows it.
#[derive(Debug, PartialEq, Eq)]
struct SigningFailure {
    reason: &'static str,
    message: String,
}

/// The space of a request, and the UID of its tenant. The system space has no UID.
struct RequestScope<'a> {
    space: &'a Space,
    uid: Option<Box<str>>,
}

impl<'a> RequestScope<'a> {
    fn of(registry: &Registry, space: &'a Space) -> std::result::Result<Self, SigningFailure> {
        let Space::Tenant(name) = space else {
            return Ok(Self { space, uid: None });
        };
        let tenant = registry.tenant(name.as_str());
        let tree = tenant
            .map(|tenant| tenant.object.tree())
            .unwrap_or_default();
        let uid = tree.get("metadata").and_then(|of| of["uid"].as_str());
        let uid = uid.ok_or_else(|| SigningFailure {
            reason: "SigningError",
            message: "the tenant is not there any more".to_owned(),
        })?;
        let uid = Some(uid.into());
        Ok(Self { space, uid })
    }
}

/// Signs an approved request, or records why it never will be signed.
pub async fn sign(registry: &Registry, authority: &Authority, address: &Address) -> Result<()> {
    let request = Modify::by_server(address, Some("status"));
    if registry
        .cached(address)
        .is_none_or(|object| !is_due(&object.tree()))
    {
        return Ok(());
    }
    let mut issued = None;
    let update = |object: &Object| {
        let mut object = object.clone();
        if is_due(&object) {
            // After the request was read: a later tenant of the name does not have this request.
            let scope = RequestScope::of(registry, &address.space);
            let signed =
                scope.and_then(|scope| certificate(authority, &scope, &object, SystemTime::now()));
            issued = signed.as_ref().ok().cloned();
            record_result(&mut object, signed);
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    modify(registry, request, update).await?;
    if let Some(pem) = issued {
        note_issued(registry, &address.space, &pem);
    }
    Ok(())
}

/// Records that a user has a certificate, which may never be used.
fn note_issued(registry: &Registry, space: &Space, pem: &str) {
    let credential = insula_access::certificate::read_pem(pem);
    let holder = credential.map(|credential| resolve_principal(credential, Some(space)));
    let state = registry.cache().space_state(space);
    if let (Ok(Ok(holder)), Some(state)) = (holder, state) {
        registry.access_records().note_issued(&state.uid, &holder);
    }
}

/// Returns the signer that the request is for, if the server signs for it.
fn signer(request: &Object) -> Option<Signer> {
    Signer::find(request.get("spec")?.get("signerName")?.as_str()?)
}

/// Whether the request is for a signer of the server, approved, and neither denied, failed nor
/// signed.
fn is_due(request: &Object) -> bool {
    let status = request.get("status").unwrap_or(&Value::Null);
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    let is = |kind: &str| {
        let of = |condition: &&Value| condition["type"] == kind && condition["status"] == "True";
        conditions().any(|condition| of(&condition))
    };
    let done = status["certificate"]
        .as_str()
        .is_some_and(|text| !text.is_empty());
    signer(request).is_some() && !done && is("Approved") && !is("Denied") && !is("Failed")
}

fn record_result(request: &mut Object, signed: std::result::Result<String, SigningFailure>) {
    let status = request.entry("status").or_insert_with(|| json!({}));
    match signed {
        Ok(pem) => status["certificate"] = STANDARD.encode(pem).into(),
        Err(SigningFailure { reason, message }) => {
            tracing::info!(reason, message, "certificate request refused");
            let now = time::now();
            let failed = json!({
                "type": "Failed",
                "status": "True",
                "reason": reason,
                "message": message,
                "lastUpdateTime": now,
                "lastTransitionTime": now,
            });
            match status["conditions"].as_array_mut() {
                Some(conditions) => conditions.push(failed),
                None => status["conditions"] = json!([failed]),
            }
        }
    }
}

fn certificate(
    authority: &Authority,
    scope: &RequestScope<'_>,
    object: &Object,
    now: SystemTime,
) -> std::result::Result<String, SigningFailure> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let signer = signer(object).ok_or_else(|| invalid("the signer is unknown".to_owned()))?;
    signer.check_usages(spec).map_err(invalid)?;
    let pem = spec["request"].as_str().unwrap_or("");
    let pem = STANDARD.decode(pem).ok();
    let pem = pem.and_then(|pem| String::from_utf8(pem).ok());
    let request = CertificateRequest::from_pem(&pem.unwrap_or_default());
    let request = request.map_err(|error| invalid(format!("the request is not valid: {error}")))?;
    let checked = signer.check_subject(&request, scope.space);
    checked.map_err(invalid)?;
    // The requested subject, bound to the request's space.
    let subject = Subject {
        tenant: Some(scope.space.clone()),
        tenant_uid: scope.uid.clone(),
        ..request.subject
    };
    let validity = validity(authority, spec, now)?;
    let issued = authority.issue_client(&subject, &request.public_key, validity);
    issued.map_err(|error| SigningFailure {
        reason: "SigningError",
        message: error.to_string(),
    })
}

/// The requested validity, never longer than that of the CA.
fn validity(
    authority: &Authority,
    spec: &Value,
    now: SystemTime,
) -> std::result::Result<Validity, SigningFailure> {
    let requested = spec["expirationSeconds"].as_u64().map(Duration::from_secs);
    let length = requested
        .unwrap_or(MAX_VALIDITY)
        .clamp(MIN_VALIDITY, MAX_VALIDITY);
    let mut validity = Validity::starting(now, length);
    // A generated CA signed itself. An external one did not, and its expiry is not checked.
    if let Some(own) = authority.recognise(authority.certificate_pem()) {
        if own.until <= now {
            return Err(SigningFailure {
                reason: "SigningError",
                message: "the CA's own certificate has expired".to_owned(),
            });
        }
        validity.until = validity.until.min(own.until);
    }
    Ok(validity)
}

fn invalid(message: String) -> SigningFailure {
    SigningFailure {
        reason: "SignerValidationFailure",
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(status: &Value) -> Object {
        let signer = "kubernetes.io/kube-apiserver-client";
        let object = json!({"spec": {"signerName": signer}, "status": status});
        object.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn only_approved_and_open_requests_are_due() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let approved = condition("Approved", "True");
        for (conditions, due) in [
            (json!([]), false),
            (json!([condition("Approved", "False")]), false),
            (json!([approved]), true),
            (json!([approved, condition("Denied", "True")]), false),
            (json!([approved, condition("Failed", "True")]), false),
        ] {
            let object = request(&json!({"conditions": conditions}));
            assert_eq!(is_due(&object), due, "{conditions}");
        }
        let done = json!({"conditions": [approved], "certificate": "eA=="});
        assert!(!is_due(&request(&done)));
        let mut other = request(&json!({"conditions": [approved]}));
        other["spec"]["signerName"] = "kubernetes.io/kubelet-serving".into();
        assert!(!is_due(&other));
    }

    #[test]
    fn validity_is_as_requested_but_at_most_that_of_the_ca() {
        let now = SystemTime::now();
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let authority =
            |length| Authority::generate("ca", Validity::starting(now, length)).unwrap();
        let until = |authority: &Authority, spec: Value| {
            let until = validity(authority, &spec, now).unwrap().until;
            until.duration_since(now).unwrap().as_secs()
        };
        let old = authority(days(3650));
        assert_eq!(until(&old, json!({})), days(365).as_secs());
        assert_eq!(until(&old, json!({"expirationSeconds": 3600})), 3600);
        assert_eq!(until(&old, json!({"expirationSeconds": 1})), 600);
        assert_eq!(
            until(&old, json!({"expirationSeconds": 40_000_000})),
            days(365).as_secs()
        );
        let young = authority(days(10));
        // Certificates have a resolution of one second.
        assert!(days(10).as_secs() - until(&young, json!({})) <= 1);
    }
}
