//! An event of `audit.k8s.io/v1`.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use http::header::USER_AGENT;
use insula_core::{ALL, Extra, Principal, SYSTEM, Space, Spaces, TenantName, Verb};
use insula_kinds::time::{Precision, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::body::Bodies;
use super::policy::{Level, Stage};
use super::record::{Decision, Notes, ReceivedRequest};
use super::uri;
use crate::pipeline::authorize::attributes;
use crate::request::annotations::{Annotation, AnnotationOwner};
use crate::status::StatusError;

/// How a request ended.
#[derive(Clone, Copy)]
pub enum Ending<'a> {
    /// The request succeeded, or the response of a watch started.
    Done(u16),
    /// The request failed.
    Refused(&'a StatusError),
    /// The client disconnected before the response.
    Abandoned,
    /// The handler panicked.
    Panicked,
}

/// One event of a request.
pub struct EventOptions<'a> {
    /// The stage.
    pub stage: Stage,
    /// The level of the request's events.
    pub level: Level,
    /// How the request ended, unless the event is at its start.
    pub ending: Option<Ending<'a>>,
    /// The bodies.
    pub bodies: Bodies<'a>,
    /// The time of the event.
    pub now: Time,
}

/// The audit event. Its members are in the order of Kubernetes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    id: &'a str,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    uri: Cow<'a, str>,
    verb: Cow<'a, str>,
    user: User<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<User<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_metadata: Option<AuthenticationMetadata>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Option::is_none")]
    sources: Option<[IpAddr; 1]>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectRef<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<&'a RawValue>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    annotations: Annotations<'a>,
}

#[derive(Default, Serialize)]
struct User<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<Cow<'a, str>, Vec<Cow<'a, str>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationMetadata {
    impersonation_constraint: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef<'a> {
    resource: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_group: &'a str,
    api_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<&'a str>,
}

#[derive(Serialize)]
struct Status<'a> {
    metadata: Empty,
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct Annotations<'a> {
    #[serde(rename = "audit.k8s.io/truncated")]
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<&'static str>,
    #[serde(rename = "authorization.k8s.io/decision")]
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(rename = "authorization.k8s.io/reason")]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'a, str>>,
    #[serde(rename = "insula.dev/space")]
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<&'a str>,
    #[serde(rename = "insula.dev/tenant")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    /// The keys of the system's annotations, as a list in JSON: values are texts.
    #[serde(rename = "insula.dev/system-annotations")]
    #[serde(skip_serializing_if = "Option::is_none")]
    system_keys: Option<String>,
    /// Annotations of admission plugins, which cannot have the names of the others.
    #[serde(flatten)]
    others: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

/// The most bytes of a name, a message or a user agent. Names in paths are not validated
/// before the object is looked up.
const MAX_TEXT_BYTES: usize = 1024;

/// The most bytes of a URI, which may contain long selectors, and of the reason of a decision,
/// which may contain the names of several objects.
const MAX_URI_BYTES: usize = 4096;

/// The most bytes of a user's groups, and of its extra fields. Tokens of identity providers may
/// have any number of them.
const MAX_LIST_BYTES: usize = 32 << 10;

/// What a text counts besides its bytes.
const TEXT_BYTES: usize = 8;

/// The suffix of truncated texts, as in Kubernetes.
const CUT: &str = "...TRUNCATED";

impl<'a> Event<'a> {
    /// Creates an event of a request.
    pub fn new(request: &ReceivedRequest<'a>, notes: &'a Notes, of: &EventOptions<'a>) -> Self {
        let agent = request.parts.headers.get(USER_AGENT);
        let agent = agent.map(|agent| String::from_utf8_lossy(agent.as_bytes()));
        Self {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: of.level.as_str(),
            id: request.id.to_str().unwrap_or_default(),
            stage: of.stage.as_str(),
            uri: cut(uri::redacted(&request.parts.uri), MAX_URI_BYTES),
            verb: match &notes.path {
                Some(path) => Cow::Borrowed(path.verb.as_str()),
                None if notes.unserved.is_some() => Cow::Borrowed(
                    notes
                        .unserved
                        .as_ref()
                        .map_or("", |of| of.attributes().verb),
                ),
                None => cut(
                    request.parts.method.as_str().to_ascii_lowercase().into(),
                    32,
                ),
            },
            user: notes.principal.as_deref().map(user).unwrap_or_default(),
            impersonated_user: notes.impersonated.as_deref().map(user),
            authentication_metadata: notes.constraint.map(|constraint| AuthenticationMetadata {
                impersonation_constraint: constraint,
            }),
            sources: request.peer.address().map(|address| [address]),
            user_agent: cut(agent.unwrap_or_default(), MAX_TEXT_BYTES),
            object_ref: object_ref(notes, of.bodies.request),
            response_status: of.ending.map(|ending| status(ending, notes, of.level)),
            request_object: of.bodies.request,
            response_object: of.bodies.response,
            request_received_timestamp: request.received.print(Precision::Micros),
            stage_timestamp: match of.stage {
                // As in Kubernetes: the request is received before its caller is known.
                Stage::RequestReceived => request.received.print(Precision::Micros),
                _ => of.now.print(Precision::Micros),
            },
            annotations: annotations(notes, of.bodies.truncated),
        }
    }

    /// Returns the event as a line of JSON.
    pub fn line(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(1024);
        if let Err(error) = serde_json::to_writer(&mut line, self) {
            // Cannot occur: the event has only texts and numbers.
            tracing::error!(%error, "audit event not encoded");
            line.clear();
        }
        line.push(b'\n');
        line
    }
}

impl Annotations<'_> {
    fn is_empty(&self) -> bool {
        self.decision.is_none()
            && self.space.is_none()
            && self.tenant.is_none()
            && self.truncated.is_none()
            && self.others.is_empty()
    }
}

fn user(principal: &Principal) -> User<'_> {
    let short = |text| cut(Cow::Borrowed(text), MAX_TEXT_BYTES);
    User {
        username: short(&principal.user),
        uid: principal.uid.as_deref().map(short),
        groups: bounded(&principal.groups, &mut { MAX_LIST_BYTES }),
        extra: bounded_extra(&principal.extra),
    }
}

/// Returns texts up to a number of bytes, which is reduced by theirs, and marks what is left out.
fn bounded<'a>(texts: &'a [String], left: &mut usize) -> Vec<Cow<'a, str>> {
    let mut kept = Vec::with_capacity(texts.len().min(MAX_LIST_BYTES / TEXT_BYTES));
    for text in texts {
        let text = cut(Cow::Borrowed(text.as_str()), MAX_TEXT_BYTES);
        let Some(rest) = left.checked_sub(text.len() + TEXT_BYTES) else {
            kept.push(Cow::Borrowed(CUT));
            break;
        };
        *left = rest;
        kept.push(text);
    }
    kept
}

fn bounded_extra(extra: &Extra) -> BTreeMap<Cow<'_, str>, Vec<Cow<'_, str>>> {
    let mut left = MAX_LIST_BYTES;
    let mut kept = BTreeMap::new();
    for (key, values) in extra {
        let key = cut(Cow::Borrowed(key.as_str()), MAX_TEXT_BYTES);
        let Some(rest) = left.checked_sub(key.len() + TEXT_BYTES) else {
            kept.insert(Cow::Borrowed(CUT), Vec::new());
            break;
        };
        left = rest;
        kept.insert(key, bounded(values, &mut left));
    }
    kept
}

/// The metadata of a sent object that its reference has, too.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SentMetadata<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
}

fn object_ref<'a>(notes: &'a Notes, sent: Option<&'a RawValue>) -> Option<ObjectRef<'a>> {
    let short = |text: &'a str| cut(Cow::Borrowed(text), MAX_TEXT_BYTES);
    if let Some(objects) = &notes.unserved {
        let of = objects.attributes();
        return Some(ObjectRef {
            resource: of.resource,
            namespace: of.namespace.map(short),
            name: of.name.map(short),
            uid: None,
            api_group: of.group,
            api_version: objects.version(),
            resource_version: None,
            subresource: of.subresource,
        });
    }
    let path = notes.path.as_ref()?;
    let name = path.name.as_deref().or(notes.name.as_deref());
    let of = attributes(path, name);
    // Patches are no objects.
    let writes = matches!(path.verb, Verb::Create | Verb::Update);
    let sent = sent
        .filter(|_| writes)
        .map(sent_metadata)
        .unwrap_or_default();
    let or_sent = |known: Option<&'a str>, sent: Option<Cow<'a, str>>| {
        let sent = sent.filter(|text| !text.is_empty());
        known
            .map(short)
            .or(sent.map(|text| cut(text, MAX_TEXT_BYTES)))
    };
    Some(ObjectRef {
        resource: of.resource,
        namespace: or_sent(of.namespace, sent.namespace),
        name: or_sent(name, sent.name),
        uid: or_sent(None, sent.uid),
        api_group: of.group,
        api_version: &path.of().version,
        resource_version: or_sent(None, sent.resource_version),
        subresource: of.subresource,
    })
}

fn sent_metadata(sent: &RawValue) -> SentMetadata<'_> {
    #[derive(Deserialize)]
    struct Sent<'a> {
        #[serde(borrow)]
        metadata: SentMetadata<'a>,
    }
    let sent: Result<Sent<'_>, _> = serde_json::from_str(sent.get());
    sent.map_or_else(|_| SentMetadata::default(), |sent| sent.metadata)
}

fn status<'a>(ending: Ending<'a>, notes: &Notes, level: Level) -> Status<'a> {
    let failure = |code, reason: &'a str, message: Cow<'a, str>| Status {
        metadata: Empty {},
        status: "Failure",
        message,
        reason,
        details: None,
        code,
    };
    match ending {
        Ending::Done(code) => Status {
            status: notes.deleted.as_ref().map_or("", |_| "Success"),
            details: notes.deleted.clone(),
            ..failure(code, "", "".into())
        },
        // The policy asks for bodies, so the message may repeat them.
        Ending::Refused(error) if level >= Level::Request => Status {
            details: error.status().get_mut("details").map(Value::take),
            ..failure(error.code, error.reason(), error.message().into())
        },
        Ending::Refused(error) => {
            let message = loggable_message(error, notes).into();
            failure(error.code, error.reason(), cut(message, MAX_TEXT_BYTES))
        }
        // Not an HTTP code, but known from the logs of proxies.
        Ending::Abandoned => {
            let message = "the client left before it was answered; what it asked for may be done";
            failure(499, "ClientClosedRequest", message.into())
        }
        Ending::Panicked => failure(500, "InternalError", "".into()),
    }
}

/// Returns the message of an error, unless it may repeat sent values, such as those of a
/// Secret: that is possible once the body is read, and in errors about the request itself.
fn loggable_message<'a>(error: &'a StatusError, notes: &Notes) -> &'a str {
    match error.code {
        400 | 422 => "",
        _ if notes.body_read => "",
        _ => error.message(),
    }
}

fn annotations(notes: &Notes, truncated: bool) -> Annotations<'_> {
    let (decision, reason) = match &notes.decision {
        None => (None, None),
        Some(Decision::Allow { reason }) => (Some("allow"), Some(reason.as_ref())),
        Some(Decision::Forbid { reason }) => (Some("forbid"), Some(reason.as_ref())),
    };
    Annotations {
        truncated: truncated.then_some("true"),
        decision,
        reason: reason.map(|reason| cut(Cow::Borrowed(reason), MAX_URI_BYTES)),
        space: notes.spaces.as_ref().map(|spaces| match spaces {
            Spaces::All => ALL,
            Spaces::One(space) => called(space),
        }),
        tenant: notes.principal.as_ref().map(|who| called(&who.home)),
        system_keys: system_keys(notes).and_then(|keys| serde_json::to_string(&keys).ok()),
        others: notes.annotations.iter().filter_map(other).collect(),
    }
}

/// Returns a truncated annotation of an admission plugin, unless its name is reserved.
fn other(annotation: &Annotation) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let ours = ["authorization.k8s.io/", "audit.k8s.io/", "insula.dev/"];
    if ours.iter().any(|prefix| annotation.key.starts_with(prefix)) {
        return None;
    }
    let short = |text| cut(Cow::Borrowed(text), MAX_TEXT_BYTES);
    Some((short(&annotation.key), short(&annotation.value)))
}

/// Returns the keys of the system's annotations, which the tenant does not see.
fn system_keys(notes: &Notes) -> Option<Vec<Cow<'_, str>>> {
    // A tenant sees no annotations of the system's own requests.
    let home = &notes.principal.as_ref()?.home;
    let of_system = notes
        .annotations
        .iter()
        .filter(|one| *home != Space::System && one.owner == AnnotationOwner::System);
    let keys: Vec<_> = of_system.filter_map(other).map(|(key, _)| key).collect();
    (!keys.is_empty()).then_some(keys)
}

fn called(space: &Space) -> &str {
    space.tenant().map_or(SYSTEM, TenantName::as_str)
}

/// Truncates a text to `max` bytes and marks it.
fn cut(text: Cow<'_, str>, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return text;
    }
    let end = text.floor_char_boundary(max);
    Cow::Owned(format!("{}{CUT}", &text[..end]))
}
