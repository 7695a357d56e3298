//! Who asked for what, and what became of it: one line for each request.
//!
//! A [`Record`] belongs to a request from its first moment. What becomes known on the way
//! is noted in it, and however the request ends, one event is written: also if it is
//! refused, if the client leaves before it is answered, and if answering it panics.
//!
//! No event has anything of a body in it, nor a header that proves who somebody is.

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

/// What is written about one request. Without a log it holds nothing and does nothing.
pub struct Record<'a> {
    open: Option<Open<'a>>,
}

/// Whether somebody may, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// They may.
    Allow {
        /// What allows it.
        reason: Cow<'static, str>,
    },
    /// They may not.
    Forbid {
        /// Why nothing allows it.
        reason: Cow<'static, str>,
    },
}

/// A request that is not over.
struct Open<'a> {
    sink: &'a Sink,
    request: ReceivedRequest<'a>,
    notes: Notes,
}

/// What was known of a request when it came.
struct ReceivedRequest<'a> {
    id: &'a HeaderValue,
    parts: &'a Parts,
    peer: &'a Peer,
    received: Time,
}

/// What became known of a request on the way.
#[derive(Debug, Default)]
struct Notes {
    path: Option<ResourcePath>,
    spaces: Option<Spaces>,
    principal: Option<Arc<Principal>>,
    impersonated: Option<Arc<Principal>>,
    /// The lesser right by which they act for somebody, if it was one.
    constraint: Option<&'static str>,
    decision: Option<Decision>,
    name: Option<String>,
    /// What others want to be known: those who admit requests.
    annotations: Vec<(String, String)>,
    /// Whatever is said from here on may repeat what was sent.
    body_read: bool,
}

impl<'a> Record<'a> {
    /// Begins to record a request, once there is room in the log.
    ///
    /// Requests wait here while the log is behind, so that the event of whatever was begun
    /// can be kept without waiting. Probes, which nobody proves anything for, neither wait
    /// nor are recorded.
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

    /// Who asks is known.
    pub fn authenticated(&mut self, principal: &Arc<Principal>) {
        self.note(|notes| notes.principal = Some(Arc::clone(principal)));
    }

    /// Who asks acts for somebody else.
    fn impersonates(&mut self, acting: &Acting) {
        self.note(|notes| {
            notes.impersonated = Some(Arc::clone(&acting.principal));
            notes.constraint = acting.constraint;
        });
    }

    /// What the request is about is known only now: a kind that users define.
    pub fn routed(&mut self, route: &Route) {
        self.note(|notes| notes.path = route.target.path().cloned());
    }

    /// Which spaces the request is about is known.
    pub fn located(&mut self, spaces: &Spaces) {
        self.note(|notes| notes.spaces = Some(spaces.clone()));
    }

    /// Whether they may is known.
    pub fn decided(&mut self, decision: Decision) {
        self.note(|notes| notes.decision = Some(decision));
    }

    /// The same from what authorization returned, and why it did. A failure that is no
    /// prohibition decided nothing.
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

    /// Whom the caller acts for, if that is somebody else and they may.
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

    /// The body is about to be read.
    pub fn reading(&mut self) {
        self.note(|notes| notes.body_read = true);
    }

    /// The object has a name which the path does not say.
    pub fn named(&mut self, name: &str) {
        self.note(|notes| notes.name = Some(name.to_owned()));
    }

    /// Others want this to be known.
    pub fn annotated(&mut self, annotations: Vec<(String, String)>) {
        self.note(|notes| notes.annotations = annotations);
    }

    /// The answer is about to be sent: with this code, or with this refusal.
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
    /// The client has gone, or answering panicked. What was asked for may have been done.
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

/// What a request is called in the log and in its answer: as the client calls it, if that
/// is a name that can be searched for and tells nothing else.
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

/// What anybody may ask without saying who they are.
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
    async fn however_a_request_ends_there_is_one_event() {
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
    fn a_clients_own_id_is_taken_if_it_is_a_plain_name() {
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
