//! A record with its last event yet to be written.

use std::sync::Arc;

use insula_kinds::time::{Precision, Time};

use super::super::backend::{Audit, Encoded};
use super::super::body::{self, Bodies, Captured, ObjectKind};
use super::super::event::{Ending, Event, EventOptions};
use super::super::policy::{Attributes, Level, RequestAudit, Requested, Stage, Stages};
use super::notes::{Notes, ReceivedRequest};
use crate::codec::answer::Answer;
use crate::codec::view::View;
use crate::flow_control::cpu_bound;
use crate::pipeline::authorize::{attributes, requested_name};
use crate::pipeline::route::{below_prefix, canonical_path, unserved};
use crate::request::negotiate::{self, Accepted, Media};
use crate::request::query::Query;
use crate::status::Result;

/// A record with its last event yet to be written.
pub struct Open<'a> {
    pub audit: &'a Arc<Audit>,
    pub request: ReceivedRequest<'a>,
    pub notes: Notes,
    /// `None` until the policy is evaluated, which needs the caller.
    pub recorded: Option<RequestAudit>,
}

/// The event that is written when a watch ends, whenever that is.
pub struct Completion {
    audit: Arc<Audit>,
    line: Vec<u8>,
    /// Where the time of the event is in the line.
    timestamp: usize,
}

/// Bodies larger than this are converted beside the threads that serve requests.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// What is recorded without a policy: one event for each request, when it ends or, of a watch,
/// when it starts.
pub const ONCE: RequestAudit = RequestAudit {
    level: Level::Metadata,
    omitted: Stages::NONE.with(Stage::RequestReceived),
    omit_managed_fields: false,
};

impl Open<'_> {
    /// Returns what is recorded of the request.
    pub fn evaluate(&mut self) -> RequestAudit {
        if let Some(recorded) = self.recorded {
            return recorded;
        }
        let audit = self.audit;
        let recorded = match audit.policy() {
            None => ONCE,
            Some(policy) => {
                self.note_target();
                let decided = self.with_attributes(|request| policy.evaluate(request));
                audit.count_level(decided.level);
                decided
            }
        };
        self.recorded = Some(recorded);
        recorded
    }

    /// Notes what the path and the query say about the target: of a list of one object its name,
    /// of a path that is not served the objects that it would name. So rules about custom
    /// resources hold whether these are served or not.
    fn note_target(&mut self) {
        let parts = self.request.parts;
        let query = || Query::parse(parts.uri.query().unwrap_or(""));
        let notes = &mut self.notes;
        match &notes.path {
            Some(path) => {
                // Names of parameters may be encoded, so only parsing tells which there are.
                let has_query = parts.uri.query().is_some_and(|text| !text.is_empty());
                if path.name.is_none() && has_query {
                    notes.name = requested_name(path, &query());
                }
            }
            None => {
                let watch = query().flag("watch");
                notes.unserved = unserved(&parts.method, parts.uri.path(), watch).objects;
            }
        }
    }

    /// Evaluates with the attributes that rules match.
    fn with_attributes<T>(&self, evaluate: impl FnOnce(&Attributes<'_>) -> T) -> T {
        let parts = self.request.parts;
        let user = self.notes.principal.as_deref();
        if let Some(path) = &self.notes.path {
            let name = path.name.as_deref().or(self.notes.name.as_deref());
            return evaluate(&Attributes {
                user,
                verb: path.verb.as_str(),
                requested: Requested::Resource(attributes(path, name)),
            });
        }
        if let Some(objects) = &self.notes.unserved {
            let of = objects.attributes();
            return evaluate(&Attributes {
                user,
                verb: of.verb,
                requested: Requested::Resource(of),
            });
        }
        let path = canonical_path(parts.uri.path());
        evaluate(&Attributes {
            user,
            verb: &parts.method.as_str().to_ascii_lowercase(),
            requested: Requested::Path(below_prefix(&path)),
        })
    }

    /// Encodes an event, unless its stage is omitted.
    pub fn event(&self, stage: Stage, ending: Option<Ending<'_>>) -> Option<Encoded> {
        let recorded = self.recorded?;
        if recorded.omitted.contains(stage) {
            return None;
        }
        let completes = matches!(stage, Stage::ResponseComplete | Stage::Panic);
        let sent = self.notes.sent.as_ref().filter(|_| completes);
        let path = self.notes.path.as_ref();
        let kind = path.map(ObjectKind::sent_to).unwrap_or_default();
        let omit = recorded.omit_managed_fields;
        let request = sent.and_then(|sent| convert(sent.media, &sent.bytes, kind, omit));
        let response = self.notes.responded.as_ref();
        let bodies = Bodies {
            request: request.as_ref().and_then(Captured::json),
            response: response.and_then(Captured::json),
            truncated: is_cut(request.as_ref()) || is_cut(response),
        };
        let encode = |bodies| {
            let options = EventOptions {
                stage,
                level: recorded.level,
                ending,
                bodies,
                now: Time::now(),
            };
            Event::new(&self.request, &self.notes, &options).line()
        };
        Some(self.audit.encode(bodies, encode))
    }

    /// Prepares the event of a watch's end.
    pub fn completion(&self, ending: Ending<'_>) -> Option<Completion> {
        let line = self
            .event(Stage::ResponseComplete, Some(ending))?
            .into_line();
        // Quotation marks in values are escaped, so this is the member.
        let member = b"\"stageTimestamp\":\"";
        let timestamp = memchr::memmem::find(&line, member)? + member.len();
        Some(Completion {
            audit: Arc::clone(self.audit),
            line,
            timestamp,
        })
    }

    /// Records the Status that a failed request is answered with.
    pub fn capture_refusal(&mut self, answered: &Result<Answer>) {
        let level = self.recorded.map(|recorded| recorded.level);
        if let Err(error) = answered
            && level == Some(Level::RequestResponse)
            && self.notes.path.is_some()
        {
            let accepted = Accepted {
                pretty: false,
                ..negotiate::RAW
            };
            let status = View::of_status(accepted).status(error);
            self.notes.responded =
                body::capture(Media::Json, &status, ObjectKind::default(), false);
        }
    }

    /// Whether a response has an event when it starts, and one when it is complete.
    pub fn stages_of(&self, answered: &Result<Answer>, is_watch: bool) -> (bool, bool) {
        match self.audit.policy() {
            None => (is_watch, !is_watch),
            // As in Kubernetes, a failed authentication has no other event.
            Some(_) if self.is_unauthenticated(answered) => (true, false),
            Some(_) => (self.notes.is_long_running(), true),
        }
    }

    /// Whether authentication failed.
    fn is_unauthenticated(&self, answered: &Result<Answer>) -> bool {
        let code = answered.as_ref().err().map(|error| error.code);
        self.notes.principal.is_none() && code == Some(401)
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let now = Time::now().print(Precision::Micros);
        let end = self.timestamp + now.len();
        if let Some(old) = self.line.get_mut(self.timestamp..end) {
            old.copy_from_slice(now.as_bytes());
        }
        let line = std::mem::take(&mut self.line);
        self.audit.push(&Encoded::whole(line));
    }
}

/// Converts a body to JSON, a large one beside the threads that serve requests.
pub fn convert(
    media: Media,
    bytes: &[u8],
    default_kind: ObjectKind<'_>,
    omit_managed_fields: bool,
) -> Option<Captured> {
    let convert = || body::capture(media, bytes, default_kind, omit_managed_fields);
    match bytes.len() > MAX_INLINE_BYTES {
        true => cpu_bound::run_blocking(convert),
        false => convert(),
    }
}

fn is_cut(captured: Option<&Captured>) -> bool {
    matches!(captured, Some(Captured::LeftOut))
}
