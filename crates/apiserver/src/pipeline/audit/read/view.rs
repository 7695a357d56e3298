//! Events as those who ask may see them.

use insula_core::{SYSTEM, Space, TenantName};
use serde_json::{Value, json};

use crate::pipeline::audit::line::{BODIES, SYSTEM_KEYS, TRUNCATED};

/// The members that describe a caller of the system, and what it sent.
const CALLER_MEMBERS: [&str; 6] = [
    "authenticationMetadata",
    "impersonatedUser",
    "requestObject",
    "responseObject",
    "sourceIPs",
    "userAgent",
];

/// The members of a response's status that say nothing about the caller, its rights, or what it
/// sent: messages and causes may repeat that.
const STATUS_MEMBERS: [&str; 3] = ["code", "reason", "status"];

/// Returns an event of a space, or `None` if it is not about the space.
///
/// The system sees requests in the space and requests of the tenant's users. The tenant sees the
/// requests of its own users, and that the system did something in its space: not who, from
/// where, with which rights and with which content. It sees nothing of callers that belong to
/// other tenants or to none.
pub fn shown(event: Value, space: &Space, is_own: bool) -> Option<Value> {
    let name = space.tenant().map_or(SYSTEM, TenantName::as_str);
    let annotations = &event["annotations"];
    let by = annotations["insula.dev/tenant"].as_str();
    let is_within = annotations["insula.dev/space"] == name;
    if by == Some(name) {
        return Some(match is_own {
            true => without_system_annotations(event),
            false => event,
        });
    }
    match (is_within, is_own) {
        (false, _) => None,
        (true, false) => Some(event),
        (true, true) => (by == Some(SYSTEM)).then(|| reduced(event)),
    }
}

/// Removes the bodies of an event, and says so.
pub fn without_bodies(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        for body in BODIES {
            members.remove(body);
        }
    }
    event["annotations"][TRUNCATED] = "true".into();
    event
}

/// Removes the annotations of the system's webhooks and policies, which describe these.
fn without_system_annotations(mut event: Value) -> Value {
    let Some(annotations) = event.get_mut("annotations").and_then(Value::as_object_mut) else {
        return event;
    };
    let keys = annotations.remove(SYSTEM_KEYS);
    let keys: Option<Vec<String>> = keys
        .as_ref()
        .and_then(Value::as_str)
        .and_then(|keys| serde_json::from_str(keys).ok());
    for key in keys.into_iter().flatten() {
        annotations.remove(&key);
    }
    event
}

/// Removes what describes a caller of the system.
fn reduced(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        for member in CALLER_MEMBERS {
            members.remove(member);
        }
        members.insert("user".to_owned(), json!({"username": SYSTEM}));
    }
    if let Some(uri) = event["requestURI"].as_str() {
        let path = uri.split('?').next().unwrap_or_default().to_owned();
        event["requestURI"] = path.into();
    }
    keep(&mut event, "responseStatus", |name| {
        STATUS_MEMBERS.contains(&name)
    });
    keep(&mut event, "annotations", |name| {
        let is_ours = name.starts_with("insula.dev/") && name != SYSTEM_KEYS;
        is_ours || name == "authorization.k8s.io/decision"
    });
    event
}

/// Removes the members of an object of the event that are not kept.
fn keep(event: &mut Value, object: &str, is_kept: impl Fn(&str) -> bool) {
    if let Some(members) = event.get_mut(object).and_then(Value::as_object_mut) {
        members.retain(|name, _| is_kept(name));
    }
}
