//! Certificates that were approved, signed.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_access::{Authority, Request, Subject, Validity};
use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Refusal;
use insula_apiserver::write::{Modified, Modify, modify};
use insula_core::{MASTERS, Space};
use insula_kinds::{Object, Value, kinds, time};
use serde_json::json;

use crate::Step;

/// Signs for clients of the API.
pub struct Signer {
    authority: Authority,
}

/// The signer whose requests are answered here.
const NAME: &str = "kubernetes.io/kube-apiserver-client";

/// How long a certificate is good for that asks for nothing, or for more.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// How long at least.
const SHORTEST: Duration = Duration::from_secs(600);

impl Signer {
    /// Signs with this CA.
    pub const fn new(authority: Authority) -> Self {
        Self { authority }
    }

    /// Signs the request, or says why not.
    pub async fn step(
        &self,
        registry: &Registry,
        space: &Space,
        name: &str,
    ) -> Result<Step, Refusal> {
        let group = "certificates.k8s.io";
        let Some(kind) = kinds().find(group, "v1", "certificatesigningrequests") else {
            return Ok(Step::Done);
        };
        let address = Address {
            kind,
            space: space.clone(),
            namespace: None,
            name: name.to_owned(),
        };
        let Some(found) = registry.fresh(&address).await? else {
            return Ok(Step::Done);
        };
        let tree = found.tree();
        if !is_due(&tree) {
            return Ok(Step::Done);
        }
        let signed = self.sign(&tree, space);
        let request = Modify {
            kind: kinds().get(kind),
            address: &address,
            subresource: Some("status"),
            whole: false,
            dry_run: false,
        };
        modify(registry, request, |current| {
            let mut object = current.clone();
            if is_due(&object) {
                answer(&mut object, &signed);
            }
            Ok(Modified {
                object,
                warnings: Vec::new(),
            })
        })
        .await?;
        Ok(Step::Done)
    }

    fn sign(&self, request: &Object, space: &Space) -> Result<String, String> {
        let spec = |member: &str| request.get("spec").and_then(|spec| spec.get(member));
        let usages = spec("usages").and_then(Value::as_array);
        if !usages.is_some_and(|usages| usages.iter().any(|usage| usage == "client auth")) {
            return Err("the usages must contain \"client auth\"".to_owned());
        }
        let pem = spec("request").and_then(Value::as_str).unwrap_or("");
        let pem = STANDARD.decode(pem).map_err(|error| error.to_string())?;
        let pem = String::from_utf8(pem).map_err(|error| error.to_string())?;
        let asked = Request::read(&pem).map_err(|error| error.to_string())?;
        let subject = subject(asked.subject, space)?;
        let seconds = spec("expirationSeconds").and_then(Value::as_u64);
        let length = seconds
            .map_or(LONGEST, Duration::from_secs)
            .clamp(SHORTEST, LONGEST);
        let validity = Validity::starting(SystemTime::now(), length);
        let issued = self
            .authority
            .issue_client(&subject, &asked.public_key, validity);
        issued.map_err(|error| error.to_string())
    }
}

/// Whom the certificate makes: somebody of the space in which it was asked for, and nobody
/// that only the server may make.
fn subject(asked: Subject, space: &Space) -> Result<Subject, String> {
    if asked.tenant.as_ref().is_some_and(|tenant| tenant != space) {
        return Err("the request names another tenant than that of its space".to_owned());
    }
    let reserved = |group: &&String| match space {
        Space::System => *group == MASTERS,
        Space::Tenant(_) => group.starts_with("system:"),
    };
    if let Some(group) = asked.groups.iter().find(reserved) {
        return Err(format!(
            "the group {group:?} is not given to clients by this signer"
        ));
    }
    if !space.is_system() && asked.user.starts_with("system:") {
        return Err(format!(
            "the user {:?} is reserved for the server",
            asked.user
        ));
    }
    Ok(Subject {
        tenant: Some(space.clone()),
        ..asked
    })
}

/// Whether it is ours, approved, and without an answer.
fn is_due(request: &Object) -> bool {
    let ours = request
        .get("spec")
        .is_some_and(|spec| spec["signerName"] == NAME);
    let status = request.get("status");
    let answered = status
        .and_then(|status| status.get("certificate"))
        .is_some();
    let conditions = status.and_then(|status| status.get("conditions")?.as_array());
    let has = |name: &str| conditions.is_some_and(|all| all.iter().any(|one| one["type"] == name));
    ours && !answered && has("Approved") && !has("Denied") && !has("Failed")
}

fn answer(request: &mut Object, signed: &Result<String, String>) {
    let status = request.entry("status").or_insert_with(|| json!({}));
    match signed {
        Ok(pem) => status["certificate"] = STANDARD.encode(pem).into(),
        Err(why) => {
            let now = time::now();
            let failed = json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                "message": why, "lastUpdateTime": now, "lastTransitionTime": now,
            });
            if let Some(conditions) = status["conditions"].as_array_mut() {
                conditions.push(failed);
            }
        }
    }
}
