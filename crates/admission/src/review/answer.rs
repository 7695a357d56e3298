//! AdmissionReview responses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insula_gotext::quote;
use insula_kinds::patch::{WebhookPatchError, webhook_json};
use insula_kinds::{Object, Value, decode};

use super::{Mode, Review, Version};
use crate::refusal::Refusal;
use crate::webhook::{Failure, Webhook};

const GROUP: &str = "admission.k8s.io";

/// The name of the scheme that Kubernetes decodes responses with, which appears in errors.
const SCHEME: &str = "k8s.io/apiserver/pkg/util/webhook/client.go:71";

/// A webhook's answer to a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The changes to apply.
    pub patch: Option<Patch>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Audit annotations; keys begin with the webhook's name.
    pub annotations: Vec<(String, String)>,
    /// The rejection, if the request was denied. Warnings and annotations still apply.
    pub refusal: Option<Refusal>,
}

/// A JSON patch that has not been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch(Vec<u8>);

impl Patch {
    /// Applies the patch, and reports whether it had any operations. If so, the caller has to
    /// decode the object again.
    ///
    /// # Errors
    ///
    /// If the patch is malformed or does not apply.
    pub fn apply(&self, webhook: &Webhook, object: &mut Option<Value>) -> Result<bool, Failure> {
        let mut nothing = Value::Null;
        let document = object.as_mut().unwrap_or(&mut nothing);
        match webhook_json(document, &self.0) {
            Ok(false) => Ok(false),
            Err(WebhookPatchError::Undecodable(why)) => {
                let why = format!("received undecodable patch in webhook response: {why}");
                Err(webhook.call_failure(&why))
            }
            _ if object.is_none() => {
                let why = format!(
                    "admission webhook \"{}\" attempted to modify the object, which is not \
                     supported for this operation",
                    webhook.name
                );
                Err(Failure::Refused(Refusal::internal(&why)))
            }
            Ok(true) => Ok(true),
            Err(WebhookPatchError::Inapplicable(why)) => {
                Err(Failure::Refused(Refusal::internal(&why)))
            }
        }
    }

    /// The JSON of the operations, for audit records.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The fields of a response as received.
#[derive(Default)]
struct Response {
    uid: String,
    allowed: bool,
    status: Option<Object>,
    patch: Vec<u8>,
    patch_type: Option<String>,
    annotations: Vec<(String, String)>,
    warnings: Vec<String>,
}

pub(super) fn read(review: &Review, webhook: &Webhook, body: &[u8]) -> Result<Answer, Failure> {
    let undecoded = |why: String| webhook.call_failure(&format!("failed to call webhook: {why}"));
    let answer = document(review.version, body).map_err(undecoded)?;
    let response = response(&answer).map_err(undecoded)?;
    let invalid =
        |why: String| webhook.call_failure(&format!("received invalid webhook response: {why}"));
    let mut response = response.ok_or_else(|| invalid("webhook response was absent".to_owned()))?;
    verify(review, &answer, &mut response).map_err(invalid)?;
    let named = |(key, value)| (format!("{}/{key}", webhook.name), value);
    let patch = Some(response.patch).filter(|patch| !patch.is_empty());
    // Kubernetes only checks the patch type of allowed responses with a patch.
    let strange = response.patch_type.filter(|of| of != "JSONPatch");
    if let (true, Some(_), Some(of)) = (response.allowed, &patch, strange) {
        return Err(webhook.call_failure(&format!("unsupported patch type {}", quote(&of))));
    }
    Ok(Answer {
        refusal: (!response.allowed).then(|| denial(&webhook.name, response.status)),
        patch: patch.map(Patch).filter(|_| response.allowed),
        warnings: response.warnings,
        annotations: response.annotations.into_iter().map(named).collect(),
    })
}

/// Decodes the document. Its type must be the one requested, or absent.
fn document(version: Version, body: &[u8]) -> Result<Object, String> {
    let not_json = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let document = decode::any(body).map_err(not_json)?;
    let answer = match document {
        Value::Object(answer) => answer,
        Value::Null => Object::new(),
        other => {
            let found = type_of(&other);
            let into = "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
            return Err(not_json(format!(
                "json: cannot unmarshal {found} into {into}"
            )));
        }
    };
    let said = |member| {
        answer
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let expected = format!("{GROUP}/{}", version.as_str());
    let (api_version, kind) = match (said("apiVersion"), said("kind")) {
        ("", "") => (expected.as_str(), "AdmissionReview"),
        ("", kind) => (expected.as_str(), kind),
        (api_version, "") => (api_version, "AdmissionReview"),
        both => both,
    };
    if kind == "AdmissionReview" && api_version == expected {
        return Ok(answer);
    }
    let ours = |name: &str| api_version == format!("{GROUP}/{name}");
    if kind == "AdmissionReview" && (ours("v1") || ours("v1beta1")) {
        let found = &api_version[GROUP.len() + 1..];
        let wanted = version.as_str();
        return Err(format!(
            "converting ({found}.AdmissionReview) to ({wanted}.AdmissionReview): unknown conversion"
        ));
    }
    Err(format!(
        "no kind {} is registered for version {} in scheme \"{SCHEME}\"",
        quote(kind),
        quote(api_version)
    ))
}

fn response(answer: &Object) -> Result<Option<Response>, String> {
    let members = match answer.get("response") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(members)) => members,
        Some(other) => {
            return Err(mismatch(
                other,
                "AdmissionReview.response",
                "v1.AdmissionResponse",
            ));
        }
    };
    let get = |name: &str| members.get(name).filter(|value| !value.is_null());
    let mut read = Response::default();
    if let Some(uid) = get("uid") {
        read.uid = string(uid, "uid", "types.UID")?;
    }
    if let Some(allowed) = get("allowed") {
        let place = "AdmissionResponse.response.allowed";
        let wrong = || mismatch(allowed, place, "bool");
        read.allowed = allowed.as_bool().ok_or_else(wrong)?;
    }
    if let Some(status) = get("status") {
        let wrong = || mismatch(status, "AdmissionResponse.response.status", "v1.Status");
        read.status = Some(status.as_object().ok_or_else(wrong)?.clone());
    }
    if let Some(patch) = get("patch") {
        let text = string(patch, "patch", "[]uint8")?;
        read.patch = unbase64(&text)?;
    }
    if let Some(kind) = get("patchType") {
        read.patch_type = Some(string(kind, "patchType", "v1.PatchType")?);
    }
    if let Some(all) = get("auditAnnotations") {
        let place = "AdmissionResponse.response.auditAnnotations";
        let wrong = || mismatch(all, place, "map[string]string");
        for (key, value) in all.as_object().ok_or_else(wrong)? {
            let value = string(value, "auditAnnotations", "string")?;
            read.annotations.push((key.clone(), value));
        }
    }
    if let Some(all) = get("warnings") {
        let wrong = || mismatch(all, "AdmissionResponse.response.warnings", "[]string");
        for warning in all.as_array().ok_or_else(wrong)? {
            read.warnings.push(string(warning, "warnings", "string")?);
        }
    }
    Ok(Some(read))
}

/// Checks a response against its review.
fn verify(review: &Review, answer: &Object, response: &mut Response) -> Result<(), String> {
    if review.version == Version::V1Beta1 {
        // This version never had any requirements.
        response.patch_type = None;
        if review.mode == Mode::Validating {
            response.patch.clear();
        }
        return Ok(());
    }
    if response.uid != review.uid {
        let (wanted, found) = (quote(&review.uid), quote(&response.uid));
        return Err(format!("expected response.uid={wanted}, got {found}"));
    }
    let said = |member| {
        answer
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (version, kind) = (said("apiVersion"), said("kind"));
    if version.is_empty() || kind.is_empty() {
        let version = if version.is_empty() { "/" } else { version };
        return Err(format!(
            "expected webhook response of {GROUP}/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
        ));
    }
    let (patch, of) = (!response.patch.is_empty(), response.patch_type.as_deref());
    let wrong = match (review.mode, patch, of) {
        (Mode::Mutating, true, None) => {
            "webhook returned response.patch but not response.patchType"
        }
        (Mode::Mutating, false, Some(_)) => {
            "webhook returned response.patchType but not response.patch"
        }
        (Mode::Mutating, true, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (Mode::Validating, true, _) => "validating webhook may not return response.patch",
        (Mode::Validating, false, Some(_)) => {
            "validating webhook may not return response.patchType"
        }
        _ => return Ok(()),
    };
    Err(wrong.to_owned())
}

/// A denial in the webhook's own words. A success code does not turn it into an admission.
fn denial(name: &str, status: Option<Object>) -> Refusal {
    let status = status.unwrap_or_default();
    let text = |member| {
        status
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let denied = format!("admission webhook \"{name}\" denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status.get("code").and_then(Value::as_u64).unwrap_or(0);
    let code = u16::try_from(code)
        .ok()
        .filter(|code| (400..1000).contains(code));
    Refusal {
        code: code.unwrap_or(400),
        reason: text("reason").to_owned(),
        message,
        details: status
            .get("details")
            .filter(|value| value.is_object())
            .cloned(),
    }
}

fn string(value: &Value, member: &str, of: &str) -> Result<String, String> {
    let place = format!("AdmissionResponse.response.{member}");
    let text = value.as_str().ok_or_else(|| mismatch(value, &place, of))?;
    Ok(text.to_owned())
}

fn mismatch(found: &Value, place: &str, of: &str) -> String {
    let found = type_of(found);
    format!("json: cannot unmarshal {found} into Go struct field {place} of type {of}")
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn unbase64(text: &str) -> Result<Vec<u8>, String> {
    // Go's decoder ignores line breaks.
    let text: String = text
        .chars()
        .filter(|letter| !matches!(letter, '\r' | '\n'))
        .collect();
    STANDARD.decode(&text).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _)
            | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(length) => length,
            base64::DecodeError::InvalidPadding => text.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })
}
