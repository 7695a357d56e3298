//! The audit log: one event per request.
//!
//! Every request has a [`Record`] from its start. The stages of the pipeline add to it, and
//! one event is written when the request ends: also if it fails, if the client disconnects
//! before the response, and if the handler panics.
//!
//! No event contains any part of a body or a header with credentials.

mod event;
mod file;
mod sink;
mod uri;

use std::borrow::Cow;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use insula_core::{Principal, Spaces};
use insula_kinds::time::Time;
use uuid::Uuid;

pub use self::sink::{Counts, Sink};

use self::event::{Ending, Event};
use crate::pipeline::authenticate::Peer;
use crate::pipeline::impersonate::Acting;
use crate::pipeline::route::{Document, ResourcePath, Route, Target};
use crate::status::{Result, StatusError};

/// The audit record of one request. Without an audit log it is empty.
pub struct Record<'a> {
    open: Option<Open<'a>>,
}

/// The decision of the authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allow {
        /// The binding that allows it.
        reason: Cow<'static, str>,
    },
    /// The request is denied.
    Forbid {
        /// The message of the denial.
        reason: Cow<'static, str>,
    },
}

/// A record whose event is yet to be written.
struct Open<'a> {
    sink: &'a Sink,
    request: ReceivedRequest<'a>,
    notes: Notes,
}

/// The request as it was received.
struct ReceivedRequest<'a> {
    id: &'a HeaderValue,
    parts: &'a Parts,
    peer: &'a Peer,
    received: Time,
}

/// The facts that the pipeline adds.
#[derive(Debug, Default)]
struct Notes {
    path: Option<ResourcePath>,
    spaces: Option<Spaces>,
    principal: Option<Arc<Principal>>,
    impersonated: Option<Arc<Principal>>,
    /// The verb of constrained impersonation, if that was used.
    constraint: Option<&'static str>,
    decision: Option<Decision>,
    name: Option<String>,
    /// Annotations of admission plugins.
    annotations: Vec<(String, String)>,
    /// Whether messages may contain parts of the body.
    body_read: bool,
}

impl<'a> Record<'a> {
    /// Starts the record of a request, once there is room in the log.
    ///
    /// Requests wait here while the log is behind, so that the event of a started request can
    /// be queued without waiting. Unauthenticated probes neither wait nor are recorded.
    pub async fn begin(
        sink: Option<&'a Sink>,
        id: &'a HeaderValue,
        peer: &'a Peer,
        parts: &'a Parts,
        route: &Result<Route>,
    ) -> Self {
        let Some(sink) = sink.filter(|_| !is_probe(route)) else {
            return Self { open: None };
        };
        let received = Time::now();
        sink.room().await;
        let request = ReceivedRequest {
            id,
            parts,
            peer,
            received,
        };
        let notes = Notes::of(route);
        Self {
            open: Some(Open {
                sink,
                request,
                notes,
            }),
        }
    }

    /// Records the caller.
    pub fn authenticated(&mut self, principal: &Arc<Principal>) {
        self.note(|notes| notes.principal = Some(Arc::clone(principal)));
    }

    /// Records the impersonated principal.
    fn impersonates(&mut self, acting: &Acting) {
        self.note(|notes| {
            notes.impersonated = Some(Arc::clone(&acting.principal));
            notes.constraint = acting.constraint;
        });
    }

    /// Records the route of a custom resource, which is resolved after authentication.
    pub fn routed(&mut self, route: &Route) {
        self.note(|notes| notes.path = route.target.path().cloned());
    }

    /// Records the requested spaces.
    pub fn located(&mut self, spaces: &Spaces) {
        self.note(|notes| notes.spaces = Some(spaces.clone()));
    }

    /// Records the decision of the authorization.
    pub fn decided(&mut self, decision: Decision) {
        self.note(|notes| notes.decision = Some(decision));
    }

    /// Records the result of the authorization. Only a 403 counts as a denial.
    pub fn authorized<T>(
        &mut self,
        authorized: Result<T>,
        reason: impl FnOnce(&T) -> &str,
    ) -> Result<T> {
        if self.open.is_some() {
            match &authorized {
                Ok(granted) => self.decided(Decision::Allow {
                    reason: reason(granted).to_owned().into(),
                }),
                Err(error) => self.forbidden(error),
            }
        }
        authorized
    }

    /// Records the result of the impersonation, and returns the impersonated principal.
    pub fn impersonated(
        &mut self,
        acting: Result<Option<Acting>>,
    ) -> Result<Option<Arc<Principal>>> {
        match &acting {
            Ok(Some(acting)) => self.impersonates(acting),
            Ok(None) => {}
            Err(error) => self.forbidden(error),
        }
        acting.map(|acting| acting.map(|acting| acting.principal))
    }

    fn forbidden(&mut self, error: &StatusError) {
        if error.code == 403 {
            let reason = error.message().to_owned().into();
            self.decided(Decision::Forbid { reason });
        }
    }

    /// Records that the body is read from here on.
    pub fn reading(&mut self) {
        self.note(|notes| notes.body_read = true);
    }

    /// Records the name of an object that the path does not name.
    pub fn named(&mut self, name: &str) {
        self.note(|notes| notes.name = Some(name.to_owned()));
    }

    /// Records the annotations of admission plugins.
    pub fn annotated(&mut self, annotations: Vec<(String, String)>) {
        self.note(|notes| notes.annotations = annotations);
    }

    /// Writes the event of a response with this code or error.
    pub fn answered(mut self, answered: Result<u16, &StatusError>) {
        let Some(open) = self.open.take() else {
            return;
        };
        open.write(match answered {
            Ok(code) if open.notes.is_watch() => Ending::Begun(code),
            Ok(code) => Ending::Done(code),
            Err(error) => Ending::Refused(error),
        });
    }

    fn note(&mut self, note: impl FnOnce(&mut Notes)) {
        if let Some(open) = &mut self.open {
            note(&mut open.notes);
        }
    }
}

impl Drop for Record<'_> {
    /// Writes the event of an abandoned or panicked request, which may have taken effect.
    fn drop(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        open.write(match std::thread::panicking() {
            true => Ending::Panicked,
            false => Ending::Abandoned,
        });
    }
}

impl Open<'_> {
    fn write(&self, ending: Ending<'_>) {
        let event = Event::new(&self.request, &self.notes, &ending, Time::now());
        self.sink.push(&event.line());
    }
}

impl Notes {
    fn of(route: &Result<Route>) -> Self {
        let Ok(route) = route else {
            return Self::default();
        };
        Self {
            path: match &route.target {
                Target::Resource(path) => Some(path.clone()),
                Target::Document(_) => None,
            },
            spaces: route.named.clone(),
            ..Self::default()
        }
    }

    fn is_watch(&self) -> bool {
        let verb = self.path.as_ref().map(|path| path.verb);
        verb == Some(insula_core::Verb::Watch)
    }
}

/// Returns the audit ID of a request: the client's own if it is a plain name, so that it
/// cannot inject anything into the log, or else a new one.
pub fn id(headers: &HeaderMap) -> HeaderValue {
    const MAX_ID_LENGTH: usize = 64;
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let sane = |id: &&HeaderValue| {
        let id = id.as_bytes();
        (1..=MAX_ID_LENGTH).contains(&id.len()) && id.iter().all(inner)
    };
    let given = headers.get("audit-id").filter(sane).cloned();
    given.unwrap_or_else(|| {
        let mut text = [0; 36];
        let text = Uuid::new_v4().hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("-"))
    })
}

/// Whether the request is an unauthenticated probe.
fn is_probe(route: &Result<Route>) -> bool {
    let target = route.as_ref().map(|route| &route.target);
    matches!(
        target,
        Ok(Target::Document(Document::Health(_) | Document::Version))
    )
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    use http::{Method, Request};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn every_request_has_one_event_however_it_ends() {
        type End = fn(Record<'_>);
        let ends: [(End, &str, u64); 4] = [
            (|record| record.answered(Ok(200)), "ResponseComplete", 200),
            (
                |record| record.answered(Err(&StatusError::timeout())),
                "ResponseComplete",
                504,
            ),
            (|record| drop(record), "ResponseComplete", 499),
            (
                |record| {
                    let fails = AssertUnwindSafe(move || {
                        let _record = record;
                        panic!("a panic that the test expects");
                    });
                    catch_unwind(fails).unwrap_err();
                },
                "Panic",
                500,
            ),
        ];
        for (end, stage, code) in ends {
            let kept = Kept::default();
            let sink = Sink::to(kept.clone()).unwrap();
            let (parts, ()) = Request::new(()).into_parts();
            let route = crate::pipeline::route::route(&Method::GET, "/api/v1/pods", false);
            let (id, peer) = (HeaderValue::from_static("a"), Peer::default());
            end(Record::begin(Some(&sink), &id, &peer, &parts, &route).await);
            sink.close().await;
            let text = kept.0.lock().unwrap().clone();
            let event: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(event["stage"], stage);
            assert_eq!(event["responseStatus"]["code"], code);
        }
    }

    #[test]
    fn audit_id_of_the_client_is_used_if_it_is_a_plain_name() {
        let long = "a".repeat(64);
        let longer = "a".repeat(65);
        for (given, taken) in [
            ("7c2d8e5a-4a5f-4a3f-9a01-3d5f0b8f7f10", true),
            ("A-1", true),
            (long.as_str(), true),
            (longer.as_str(), false),
            ("", false),
            ("a b", false),
            ("a\"b", false),
            ("{\"a\":1}", false),
            ("Bearer:x", false),
            ("a_b", false),
            ("a.b", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("audit-id", HeaderValue::from_str(given).unwrap());
            let id = id(&headers);
            assert_eq!(id == given, taken, "{given:?} became {id:?}");
            assert!(taken || id.len() == 36, "{given:?} became {id:?}");
        }
        let mut bytes = HeaderMap::new();
        bytes.insert("audit-id", HeaderValue::from_bytes(b"a\xff").unwrap());
        assert_eq!(id(&bytes).len(), 36);
        assert_ne!(id(&HeaderMap::new()), id(&HeaderMap::new()));
    }
}
