//! What a request is answered with.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, VARY,
    WARNING,
};
use http::request::Parts;
use http::{Response, StatusCode};

use crate::codec::body::Body;
use crate::codec::gzip::gzip;
use crate::codec::view::{self, View};
use crate::flow_control::Turns;
use crate::request::negotiate::{self, Accepted, Asked, Media};
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use insula_cache::Stored;

/// What an answer is made of, before it goes out.
pub struct Answer {
    /// The code.
    pub status: StatusCode,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: Body,
    warnings: Vec<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// A body is compressed if it is larger than this.
pub const WORTH_COMPRESSING: usize = 128 << 10;

impl Answer {
    /// With a body of JSON.
    pub const fn new(status: StatusCode, body: Body) -> Self {
        Self {
            status,
            content_type: Media::Json.as_str(),
            body,
            warnings: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// In the format that the body was made in, compressed if that was asked for.
    #[must_use]
    pub fn of(mut self, accepted: Accepted) -> Self {
        self.content_type = accepted.media.as_str();
        if accepted.gzip {
            self.compress();
        }
        self
    }

    /// With a content type of its own.
    #[must_use]
    pub const fn typed(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    /// With a header more.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// With a body that is compressed already, or not.
    #[must_use]
    pub fn encoded(self, zipped: bool) -> Self {
        match zipped {
            true => self.header(CONTENT_ENCODING, HeaderValue::from_static("gzip")),
            false => self,
        }
    }

    /// Sent in turns with others, if it is large.
    #[must_use]
    pub fn paced(mut self, turns: Turns) -> Self {
        self.body = self.body.paced(turns);
        self
    }

    /// With what the caller should know: first this, then what is there already.
    #[must_use]
    pub fn warned(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.splice(0..0, warnings);
        self
    }

    /// What became of a write.
    pub fn done(view: &View, done: Done) -> Result<Self> {
        let status = if done.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        Ok(Self::new(status, view.object(&done.object)?).warned(done.warnings))
    }

    /// A refusal, in the format that the caller accepts.
    pub fn refused(parts: &Parts, query: &Query, refusal: &StatusError) -> Self {
        let status =
            StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let accepted = negotiate::accepted(&parts.headers, query, Asked::Plain);
        let accepted = accepted.unwrap_or(negotiate::RAW);
        let mut answer = match refusal.plain {
            Some(text) => {
                let mut answer = Self::new(status, Bytes::from_static(text.as_bytes()).into());
                answer.content_type = "text/plain; charset=utf-8";
                answer
            }
            None => {
                let body = view::finish(accepted, View::of_status(accepted).status(refusal));
                Self::new(status, body.into()).of(Accepted {
                    gzip: false,
                    ..accepted
                })
            }
        };
        answer.warnings.extend_from_slice(refusal.warnings());
        if let Some(seconds) = refusal.retry_after {
            answer = answer.header(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::FORBIDDEN {
            let name = HeaderName::from_static("x-content-type-options");
            answer = answer.header(name, HeaderValue::from_static("nosniff"));
        }
        answer
    }

    fn compress(&mut self) {
        let whole = match std::mem::replace(&mut self.body, Body::empty()) {
            Body::Whole(Some(bytes)) => bytes,
            Body::List(list) => list.collect(),
            other => {
                self.body = other;
                return;
            }
        };
        if whole.len() <= WORTH_COMPRESSING {
            self.body = whole.into();
            return;
        }
        self.body = gzip(&whole).into();
        self.headers
            .push((CONTENT_ENCODING, HeaderValue::from_static("gzip")));
        self.headers
            .push((VARY, HeaderValue::from_static("Accept-Encoding")));
    }

    /// The answer on its way, under the name that the log has for the request.
    pub fn respond(self, audit_id: HeaderValue) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(HeaderName::from_static("audit-id"), audit_id);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        for value in warnings(&self.warnings) {
            headers.append(WARNING, value);
        }
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}

/// The outcome of a write, to be answered with.
#[derive(Debug)]
pub struct Done {
    /// The object as written.
    pub object: Arc<Stored>,
    /// Whether the write created it.
    pub created: bool,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// The headers that warnings go into. Together they are bounded, as clients bound headers:
/// what is too long is cut, and what comes after the bound is left out.
fn warnings(texts: &[String]) -> Vec<HeaderValue> {
    const ALL: usize = 4096;
    const EACH: usize = 256;
    let whole = texts.iter().map(String::len).sum::<usize>() <= ALL;
    let mut left = ALL;
    let mut values = Vec::new();
    for text in texts {
        let most = if whole { ALL } else { EACH };
        let end = text.floor_char_boundary(most.min(text.len()));
        let Some(rest) = left.checked_sub(end) else {
            break;
        };
        left = rest;
        let text = insula_gotext::quote(&text[..end]);
        values.extend(HeaderValue::from_bytes(format!("299 - {text}").as_bytes()));
    }
    values
}
