//! An event of `audit.k8s.io/v1`, at the level `Metadata`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use http::header::USER_AGENT;
use insula_core::{ALL, Extra, Principal, SYSTEM, Space, Spaces, TenantName};
use insula_kinds::time::{Precision, Time};
use serde::Serialize;

use super::{Decision, Notes, ReceivedRequest, uri};
use crate::pipeline::route::ResourcePath;
use crate::status::StatusError;

/// How a request ended.
pub enum Ending<'a> {
    /// The response of a watch started, which may last for hours.
    Begun(u16),
    /// The request succeeded.
    Done(u16),
    /// The request failed.
    Refused(&'a StatusError),
    /// The client disconnected before the response.
    Abandoned,
    /// The handler panicked.
    Panicked,
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
    response_status: Status<'a>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    annotations: Annotations<'a>,
}

#[derive(Default, Serialize)]
struct User<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a Extra>,
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
    #[serde(skip_serializing_if = "str::is_empty")]
    api_group: &'a str,
    api_version: &'a str,
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
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct Annotations<'a> {
    #[serde(rename = "authorization.k8s.io/decision")]
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(rename = "authorization.k8s.io/reason")]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(rename = "insula.dev/space")]
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<&'a str>,
    #[serde(rename = "insula.dev/tenant")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    /// Annotations of admission plugins, which cannot have the names of the others.
    #[serde(flatten)]
    others: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

/// The most bytes of a name, a message or a user agent. Names in paths are not validated
/// before the object is looked up.
const MAX_TEXT_BYTES: usize = 1024;

/// The most bytes of a URI, which may contain long selectors.
const MAX_URI_BYTES: usize = 4096;

/// The suffix of truncated texts, as in Kubernetes.
const CUT: &str = "...TRUNCATED";

impl<'a> Event<'a> {
    /// Creates the event at the time `now`.
    pub fn new(
        request: &ReceivedRequest<'a>,
        notes: &'a Notes,
        ending: &Ending<'a>,
        now: Time,
    ) -> Self {
        let agent = request.parts.headers.get(USER_AGENT);
        let agent = agent.map(|agent| String::from_utf8_lossy(agent.as_bytes()));
        Self {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: "Metadata",
            id: request.id.to_str().unwrap_or_default(),
            stage: ending.stage(),
            uri: cut(uri::redacted(&request.parts.uri), MAX_URI_BYTES),
            verb: match &notes.path {
                Some(path) => Cow::Borrowed(path.verb.as_str()),
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
            object_ref: notes.path.as_ref().map(|path| object_ref(path, notes)),
            response_status: status(ending, notes),
            request_received_timestamp: request.received.print(Precision::Micros),
            stage_timestamp: now.print(Precision::Micros),
            annotations: annotations(notes),
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

impl Ending<'_> {
    const fn stage(&self) -> &'static str {
        match self {
            Self::Begun(_) => "ResponseStarted",
            Self::Done(_) | Self::Refused(_) | Self::Abandoned => "ResponseComplete",
            Self::Panicked => "Panic",
        }
    }
}

impl Annotations<'_> {
    fn is_empty(&self) -> bool {
        self.decision.is_none()
            && self.space.is_none()
            && self.tenant.is_none()
            && self.others.is_empty()
    }
}

fn user(principal: &Principal) -> User<'_> {
    User {
        username: &principal.user,
        uid: principal.uid.as_deref(),
        groups: &principal.groups,
        extra: Some(&principal.extra).filter(|extra| !extra.is_empty()),
    }
}

fn object_ref<'a>(path: &'a ResourcePath, notes: &'a Notes) -> ObjectRef<'a> {
    let kind = path.of();
    let short = |text: &'a String| cut(Cow::Borrowed(text.as_str()), MAX_TEXT_BYTES);
    ObjectRef {
        resource: &kind.resource,
        namespace: path.namespace.as_ref().map(short),
        name: path.name.as_ref().or(notes.name.as_ref()).map(short),
        api_group: &kind.group,
        api_version: &kind.version,
        subresource: path.subresource.as_deref(),
    }
}

fn status<'a>(ending: &Ending<'a>, notes: &Notes) -> Status<'a> {
    let failure = |code, reason: &'a str, message: Cow<'a, str>| Status {
        metadata: Empty {},
        status: "Failure",
        message,
        reason,
        code,
    };
    match ending {
        Ending::Begun(code) | Ending::Done(code) => Status {
            status: "",
            ..failure(*code, "", "".into())
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

fn annotations(notes: &Notes) -> Annotations<'_> {
    let (decision, reason) = match &notes.decision {
        None => (None, None),
        Some(Decision::Allow { reason }) => (Some("allow"), Some(reason.as_ref())),
        Some(Decision::Forbid { reason }) => (Some("forbid"), Some(reason.as_ref())),
    };
    Annotations {
        decision,
        reason,
        space: notes.spaces.as_ref().map(|spaces| match spaces {
            Spaces::All => ALL,
            Spaces::One(space) => called(space),
        }),
        tenant: notes.principal.as_ref().map(|who| called(&who.home)),
        others: notes.annotations.iter().filter_map(other).collect(),
    }
}

/// Returns a truncated annotation of an admission plugin, unless its name is reserved.
fn other((key, value): &(String, String)) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let ours = ["authorization.k8s.io/", "insula.dev/"];
    if ours.iter().any(|prefix| key.starts_with(prefix)) {
        return None;
    }
    let short = |text| cut(Cow::Borrowed(text), MAX_TEXT_BYTES);
    Some((short(key.as_str()), short(value.as_str())))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderValue, Method, Request};
    use insula_core::{Proof, TenantBinding};
    use serde_json::Value;

    use super::*;
    use crate::pipeline::authenticate::Peer;
    use crate::pipeline::route::route;

    fn principal(user: &str, home: &str) -> Arc<Principal> {
        Arc::new(Principal {
            user: user.to_owned(),
            uid: None,
            groups: vec!["people".to_owned()],
            extra: Extra::from([("example.com/a".to_owned(), vec!["b".to_owned()])]),
            home: Space::parse(home).unwrap(),
            tenant_binding: TenantBinding::Name,
            proof: Proof::StaticToken,
        })
    }

    /// The line about a GET of this path.
    fn line(path: &str, agent: &[u8], note: impl FnOnce(&mut Notes), ending: &Ending) -> String {
        let request = Request::builder().uri(path);
        let request = request.header(USER_AGENT, HeaderValue::from_bytes(agent).unwrap());
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut notes = Notes::of(&route(&Method::GET, parts.uri.path(), false));
        note(&mut notes);
        let id = HeaderValue::from_static("id-1");
        let moment = |micros: u32| Time {
            seconds: 1_000_000_000,
            nanos: micros * 1000,
        };
        let request = ReceivedRequest {
            id: &id,
            parts: &parts,
            peer: &Peer::default().at("192.0.2.7".parse().unwrap()),
            received: moment(1),
        };
        let line = Event::new(&request, &notes, ending, moment(250_000)).line();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn an_event_has_everything_in_the_order_of_kubernetes() {
        let note = |notes: &mut Notes| {
            notes.principal = Some(principal("alice", "system"));
            notes.impersonated = Some(principal("bob", "t1"));
            notes.constraint = Some("impersonate:user-info");
            notes.decision = Some(Decision::Allow {
                reason: "RBAC: allowed".into(),
            });
        };
        let path = "/tenants/t1/apis/apps/v1/namespaces/n/deployments/d/scale?pretty=1&token=x";
        let expected = concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","#,
            r#""auditID":"id-1","stage":"ResponseComplete","#,
            r#""requestURI":"/tenants/t1/apis/apps/v1/namespaces/n/deployments/d/scale"#,
            r#"?pretty=1&token=****","verb":"get","#,
            r#""user":{"username":"alice","groups":["people"],"extra":{"example.com/a":["b"]}},"#,
            r#""impersonatedUser":{"username":"bob","groups":["people"],"#,
            r#""extra":{"example.com/a":["b"]}},"#,
            r#""authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"#,
            r#""sourceIPs":["192.0.2.7"],"userAgent":"kubectl/v1.36.0","#,
            r#""objectRef":{"resource":"deployments","namespace":"n","name":"d","#,
            r#""apiGroup":"apps","apiVersion":"v1","subresource":"scale"},"#,
            r#""responseStatus":{"metadata":{},"code":200},"#,
            r#""requestReceivedTimestamp":"2001-09-09T01:46:40.000001Z","#,
            r#""stageTimestamp":"2001-09-09T01:46:40.250000Z","#,
            r#""annotations":{"authorization.k8s.io/decision":"allow","#,
            r#""authorization.k8s.io/reason":"RBAC: allowed","#,
            r#""insula.dev/space":"t1","insula.dev/tenant":"system"}}"#,
            "\n",
        );
        assert_eq!(
            line(path, b"kubectl/v1.36.0", note, &Ending::Done(200)),
            expected
        );
    }

    #[test]
    fn whatever_a_client_sends_the_event_is_one_line_of_bounded_json() {
        let long = "n".repeat(20_000);
        let paths = [
            "/nowhere".to_owned(),
            "/api/v1/namespaces/a%0Ab%22%7D/pods/%00".to_owned(),
            format!("/api/v1/namespaces/{long}/pods/{long}?labelSelector={long}"),
            format!("/{long}"),
        ];
        let wide = "ä".repeat(5000);
        let forged = br#"","annotations":{"insula.dev/tenant":"acme"}}"#;
        let agents: [&[u8]; 4] = [b"a\"}\t{\xff\xfe", wide.as_bytes(), forged, b""];
        for path in &paths {
            for agent in agents {
                let said = line(path, agent, |_| {}, &Ending::Done(200));
                assert_eq!(said.matches('\n').count(), 1, "{said}");
                assert!(said.ends_with("}\n") && said.len() < 16 << 10, "{said}");
                let event: Value = serde_json::from_str(&said).unwrap();
                assert_eq!(event["user"], serde_json::json!({}));
                // Nobody puts words into the log that a search takes for the server's.
                assert!(!said.contains(r#""insula.dev/tenant":"#), "{said}");
                let cut = event["userAgent"].as_str().unwrap_or("").ends_with(CUT);
                assert_eq!(cut, agent.len() > MAX_TEXT_BYTES);
            }
        }
    }

    #[test]
    fn a_message_is_told_unless_it_may_repeat_what_was_sent() {
        let unread = |_: &mut Notes| {};
        let read = |notes: &mut Notes| notes.body_read = true;
        let bad = StatusError::bad_request("canary");
        let invalid = StatusError::invalid_patch(&[]);
        let missing = StatusError::no_such_resource();
        for (error, note, loggable_message) in [
            (&missing, unread as fn(&mut Notes), true),
            (&missing, read, false),
            (&bad, unread, false),
            (&bad, read, false),
            (&invalid, unread, false),
        ] {
            let said = line("/api/v1/pods", b"", note, &Ending::Refused(error));
            let event: Value = serde_json::from_str(&said).unwrap();
            let status = &event["responseStatus"];
            assert_eq!(status["code"], error.code);
            assert_eq!(status["status"], "Failure");
            assert_eq!(status["reason"], error.reason());
            let expected = loggable_message.then(|| error.message());
            assert_eq!(status["message"].as_str(), expected, "{error:?}");
        }
    }

    #[test]
    fn every_ending_has_its_stage_and_code() {
        for (ending, stage, code) in [
            (Ending::Begun(200), "ResponseStarted", 200),
            (Ending::Done(201), "ResponseComplete", 201),
            (Ending::Abandoned, "ResponseComplete", 499),
            (Ending::Panicked, "Panic", 500),
        ] {
            let said = line("/api/v1/pods", b"", |_| {}, &ending);
            let event: Value = serde_json::from_str(&said).unwrap();
            assert_eq!(event["stage"], stage);
            assert_eq!(event["responseStatus"]["code"], code);
        }
    }
}
