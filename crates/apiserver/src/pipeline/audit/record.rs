//! The audit record of one request.

mod notes;
mod open;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::request::Parts;
use insula_core::{Principal, Spaces};
use insula_kinds::Kind;
use insula_kinds::time::Time;
use serde_json::Value;

pub use self::notes::{Decision, Notes, ReceivedRequest};

use self::open::{ONCE, Open, convert};
use super::backend::Audit;
use super::body::{self, Captured, ObjectKind, SentBody};
use super::event::Ending;
use super::policy::{Level, Stage};
use crate::codec::answer::Answer;
use crate::codec::view;
use crate::pipeline::authenticate::Peer;
use crate::pipeline::impersonate::Acting;
use crate::pipeline::route::{Document, Route, Target};
use crate::request::annotations::Annotation;
use crate::request::negotiate::{self, Accepted, Media};
use crate::status::{Result, StatusError};

/// The audit record of one request. It is empty if the request is not recorded.
pub struct Record<'a> {
    /// Boxed, because most servers have no audit log.
    open: Option<Box<Open<'a>>>,
}

impl<'a> Record<'a> {
    /// Starts the record of a request, once there is room in the log.
    ///
    /// Requests wait here while the log is behind, so that the event of a started request can
    /// be queued without waiting. Unauthenticated probes neither wait nor are recorded.
    pub async fn begin(
        audit: Option<&'a Arc<Audit>>,
        id: &'a HeaderValue,
        peer: &'a Peer,
        parts: &'a Parts,
        route: &Result<Route>,
    ) -> Self {
        let Some(audit) = audit.filter(|_| !is_probe(route)) else {
            return Self { open: None };
        };
        let received = Time::now();
        Box::pin(audit.room()).await;
        let request = ReceivedRequest {
            id,
            parts,
            peer,
            received,
        };
        Self {
            open: Some(Box::new(Open {
                audit,
                request,
                notes: Notes::of(route),
                recorded: audit.policy().is_none().then_some(ONCE),
            })),
        }
    }

    /// Records the caller, and evaluates the policy. The policy knows the caller itself, not a
    /// user that it impersonates.
    ///
    /// # Errors
    ///
    /// If a backend must have the event before the request is served, and has not.
    pub async fn authenticated(&mut self, principal: &Arc<Principal>) -> Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        open.notes.principal = Some(Arc::clone(principal));
        if open.evaluate().level == Level::None {
            self.open = None;
            return Ok(());
        }
        let Some(event) = open.event(Stage::RequestReceived, None) else {
            return Ok(());
        };
        if Box::pin(open.audit.deliver(event)).await {
            return Ok(());
        }
        open.audit.count_rejected();
        self.open = None;
        Err(StatusError::internal("failed to store audit event"))
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
        self.note(|notes| {
            notes.path = route.target.path().cloned();
            notes.unserved = None;
        });
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

    /// Records the body of the request, if the policy asks for it.
    pub fn received(&mut self, bytes: &Bytes) {
        if self.level() < Level::Request {
            return;
        }
        let Some(open) = &mut self.open else {
            return;
        };
        let headers = &open.request.parts.headers;
        let media = body::media_of(negotiate::content_type(headers));
        open.notes.sent = Some(SentBody {
            // Refused in any case, and recorded as a text.
            media: media.unwrap_or(Media::Json),
            bytes: bytes.clone(),
        });
    }

    /// Returns the format to encode the response in: not compressed if the policy asks for its
    /// body, which [`responded`](Self::responded) then compresses.
    pub fn uncompressed(&self, accepted: Accepted) -> Accepted {
        Accepted {
            gzip: accepted.gzip && self.level() < Level::RequestResponse,
            ..accepted
        }
    }

    /// Records the body of a response, if the policy asks for it. Those of watches are not
    /// recorded.
    pub fn responded(&mut self, mut answer: Answer, accepted: Accepted) -> Answer {
        if self.level() < Level::RequestResponse || answer.body.is_endless() {
            return answer;
        }
        let omit = self.omits_managed_fields();
        let captured = match answer.body.whole(body::MAX_OBJECT_BYTES) {
            None => Some(Captured::LeftOut),
            Some(bytes) => convert(accepted.media, &bytes, ObjectKind::default(), omit),
        };
        self.note(|notes| notes.responded = captured);
        match accepted.gzip {
            true => answer.compressed(),
            false => answer,
        }
    }

    /// Records the name of an object that the path does not name.
    pub fn named(&mut self, name: &str) {
        self.note(|notes| notes.name = Some(name.to_owned()));
    }

    /// Records the object that was deleted, which the response is a `Status` about.
    pub fn deleted(&mut self, kind: &Kind, name: &str, uid: Option<&Value>) {
        self.note(|notes| notes.deleted = Some(view::deleted_details(kind, name, uid)));
    }

    /// Records the annotations of admission plugins.
    pub fn annotated(&mut self, annotations: Vec<Annotation>) {
        self.note(|notes| notes.annotations = annotations);
    }

    /// Writes the events of a response. A watch gets an event when it ends, too.
    pub async fn answered(self, answered: Result<Answer>) -> Result<Answer> {
        match self.open.is_some() {
            true => Box::pin(self.write_events(answered)).await,
            false => answered,
        }
    }

    async fn write_events(mut self, answered: Result<Answer>) -> Result<Answer> {
        let Some(open) = &mut self.open else {
            return answered;
        };
        if open.evaluate().level == Level::None {
            self.open = None;
            return answered;
        }
        let ending = ending(&answered);
        let (audit, is_watch) = (open.audit, answered.is_ok() && open.notes.is_watch());
        let (starts, completes) = open.stages_of(&answered, is_watch);
        let event = starts.then(|| open.event(Stage::ResponseStarted, Some(ending)));
        if !completes {
            self.open = None;
        }
        // If the client leaves here, what is still open is completed when it is dropped.
        if let Some(event) = event.flatten() {
            audit.deliver(event).await;
        }
        let Some(mut open) = self.open.take() else {
            return answered;
        };
        if !is_watch {
            open.capture_refusal(&answered);
            if let Some(event) = open.event(Stage::ResponseComplete, Some(ending)) {
                audit.deliver(event).await;
            }
            return answered;
        }
        let completion = open.completion(ending);
        answered.map(|mut answer| {
            if let Some(completion) = completion {
                answer.body = answer.body.holding(Box::new(completion));
            }
            answer
        })
    }

    fn level(&self) -> Level {
        let recorded = self.open.as_ref().and_then(|open| open.recorded);
        recorded.map_or(Level::None, |recorded| recorded.level)
    }

    fn omits_managed_fields(&self) -> bool {
        let recorded = self.open.as_ref().and_then(|open| open.recorded);
        recorded.is_some_and(|recorded| recorded.omit_managed_fields)
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
        let Some(mut open) = self.open.take() else {
            return;
        };
        if open.evaluate().level == Level::None {
            return;
        }
        let (stage, ending) = match std::thread::panicking() {
            true => (Stage::Panic, Ending::Panicked),
            false => (Stage::ResponseComplete, Ending::Abandoned),
        };
        if let Some(event) = open.event(stage, Some(ending)) {
            open.audit.push(&event);
        }
    }
}

fn ending(answered: &Result<Answer>) -> Ending<'_> {
    match answered {
        Ok(answer) => Ending::Done(answer.status.as_u16()),
        Err(error) => Ending::Refused(error),
    }
}

/// Whether the request is an unauthenticated probe.
fn is_probe(route: &Result<Route>) -> bool {
    let target = route.as_ref().map(|route| &route.target);
    matches!(
        target,
        Ok(Target::Document(
            Document::Health { .. } | Document::Version
        ))
    )
}
