//! Events as those who ask may see them.

use insula_core::{SYSTEM, Space, TenantName};
use serde_json::{Value, json};

use crate::pipeline::audit::line::{BODIES, TRUNCATED};

/// The members that describe a caller of the system, and what it sent.
const CALLER_MEMBERS: [&str; 6] = [
    "authenticationMetadata",
    "impersonatedUser",
    "requestObject",
    "responseObject",
    "sourceIPs",
    "userAgent",
];

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
        return Some(event);
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
    // Both name the caller, or the bindings that give it its rights.
    for (object, member) in [
        ("annotations", "authorization.k8s.io/reason"),
        ("responseStatus", "message"),
    ] {
        if let Some(object) = event.get_mut(object).and_then(Value::as_object_mut) {
            object.remove(member);
        }
    }
    event
}
