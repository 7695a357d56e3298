//! The answer to a request, before it is a response.

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
use crate::flow_control::{TimeSlices, cpu_bound};
use crate::request::negotiate::{self, Accepted, Asked, Media};
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use insula_cache::Stored;
use insula_core::Space;

/// An answer: status, headers, warnings and body.
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The content type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Body,
    warnings: Vec<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
    payer: Option<Space>,
}

/// The space that a response is charged to while it is sent: an extension of the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payer(pub Space);

/// Bodies larger than this are compressed, which takes more than a millisecond.
pub const MIN_COMPRESSED: usize = 128 << 10;

impl Answer {
    /// An answer with a JSON body.
    pub const fn new(status: StatusCode, body: Body) -> Self {
        Self {
            status,
            content_type: Media::Json.as_str(),
            body,
            warnings: Vec::new(),
            headers: Vec::new(),
            payer: None,
        }
    }

    /// Sets the format that the body was encoded in, and compresses it if the client accepts that.
    #[must_use]
    pub fn of(mut self, accepted: Accepted) -> Self {
        self.content_type = accepted.media.as_str();
        if accepted.gzip {
            self.compress();
        }
        self
    }

    /// Compresses the body, if it is large enough.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        self.compress();
        self
    }

    /// Sets the content type.
    #[must_use]
    pub const fn typed(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Notes whether the body is compressed already.
    #[must_use]
    pub fn encoded(self, zipped: bool) -> Self {
        match zipped {
            true => self.header(CONTENT_ENCODING, HeaderValue::from_static("gzip")),
            false => self,
        }
    }

    /// Sends a large body in turns with other spaces.
    #[must_use]
    pub fn paced(mut self, turns: TimeSlices) -> Self {
        self.body = self.body.paced(turns);
        self
    }

    /// Charges the response to a space while it is sent.
    #[must_use]
    pub fn paid_by(mut self, payer: Space) -> Self {
        self.payer = Some(payer);
        self
    }

    /// Adds warnings for the client, before those that are there.
    #[must_use]
    pub fn warned(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.splice(0..0, warnings);
        self
    }

    /// The answer to a write.
    pub fn done(view: &View, done: Done) -> Result<Self> {
        let status = if done.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        Ok(Self::new(status, view.object(&done.object)?).warned(done.warnings))
    }

    /// The answer to a request that failed, in the format that the client accepts.
    pub fn failed(parts: &Parts, query: &Query, error: &StatusError) -> Self {
        let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let accepted = negotiate::accepted(&parts.headers, query, Asked::Plain);
        let accepted = accepted.unwrap_or(negotiate::RAW);
        let mut answer = match error.plain {
            Some(text) => {
                let mut answer = Self::new(status, Bytes::from_static(text.as_bytes()).into());
                answer.content_type = "text/plain; charset=utf-8";
                answer
            }
            None => {
                let body = view::finish(accepted, View::of_status(accepted).status(error));
                Self::new(status, body.into()).of(Accepted {
                    gzip: false,
                    ..accepted
                })
            }
        };
        answer.warnings.extend_from_slice(error.warnings());
        if let Some(seconds) = error.retry_after {
            answer = answer.header(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::FORBIDDEN {
            let name = HeaderName::from_static("x-content-type-options");
            answer = answer.header(name, HeaderValue::from_static("nosniff"));
        }
        answer
    }

    fn compress(&mut self) {
        let compressed = match std::mem::replace(&mut self.body, Body::empty()) {
            Body::Whole(Some(bytes)) if bytes.len() > MIN_COMPRESSED => {
                cpu_bound::run_blocking(|| gzip(&bytes)).into()
            }
            Body::List(mut list) => match list.take_whole(MIN_COMPRESSED) {
                Some(whole) => {
                    self.body = whole.into();
                    return;
                }
                None => Body::List(Box::new((*list).compressed())),
            },
            other => {
                self.body = other;
                return;
            }
        };
        self.body = compressed;
        self.headers
            .push((CONTENT_ENCODING, HeaderValue::from_static("gzip")));
        self.headers
            .push((VARY, HeaderValue::from_static("Accept-Encoding")));
    }

    /// Returns the response, with the ID of the request's audit event.
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
        if let Some(payer) = self.payer {
            response.extensions_mut().insert(Payer(payer));
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

/// Returns the `Warning` headers. Clients bound headers, so long warnings are cut and those beyond
/// the bound are left out.
fn warnings(texts: &[String]) -> Vec<HeaderValue> {
    const MAX_TOTAL: usize = 4096;
    const MAX_EACH: usize = 256;
    let whole = texts.iter().map(String::len).sum::<usize>() <= MAX_TOTAL;
    let mut left = MAX_TOTAL;
    let mut values = Vec::new();
    for text in texts {
        let max = if whole { MAX_TOTAL } else { MAX_EACH };
        let end = text.floor_char_boundary(max.min(text.len()));
        let Some(rest) = left.checked_sub(end) else {
            break;
        };
        left = rest;
        let text = insula_gotext::quote(&text[..end]);
        values.extend(HeaderValue::from_bytes(format!("299 - {text}").as_bytes()));
    }
    values
}
