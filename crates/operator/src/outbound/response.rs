//! Responses of bounded size.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::error::RequestError;

/// The size up to which responses are read at once.
pub(super) const SMALL_RESPONSE_KIB: usize = 256;
/// How many larger responses may be read and parsed at the same time, by all clients: each takes
/// some tens of megabytes.
static LARGE_RESPONSES: Semaphore = Semaphore::const_new(4);
/// How long the rest of a larger response may take: a slow one blocks others.
const LARGE_RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A complete response. Its content may be secret, and is not part of the `Debug` output.
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Held while the response exists, if it is large.
    _permit: Option<SemaphorePermit<'static>>,
}

impl HttpResponse {
    /// Returns the response if its status is one of success.
    ///
    /// # Errors
    ///
    /// If the status is another one. An overloaded server counts as unreachable.
    pub fn success(self) -> Result<Self, RequestError> {
        match self.status.as_u16() {
            200..300 => Ok(self),
            status @ (429 | 502..=504) => {
                let why = format!("it is overloaded (HTTP {status})");
                Err(RequestError::Unreachable(why))
            }
            _ => Err(RequestError::Status(self.status)),
        }
    }

    /// Returns the body as text.
    ///
    /// # Errors
    ///
    /// If it is not UTF-8.
    pub fn text(&self) -> Result<&str, RequestError> {
        str::from_utf8(&self.body)
            .map_err(|_| RequestError::InvalidResponse("it is no UTF-8".to_owned()))
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    ///
    /// If it is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, RequestError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // The message of the error may quote the response.
            let (line, column) = (error.line(), error.column());
            let why = format!("it is not the expected JSON (at {line}:{column})");
            RequestError::InvalidResponse(why)
        })
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HttpResponse")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Reads a response with a body of at most this size. The server may answer with anything.
pub(super) async fn receive(
    response: Response<Incoming>,
    max_kib: usize,
) -> Result<HttpResponse, RequestError> {
    let (head, mut body) = response.into_parts();
    let mut bytes = BytesMut::new();
    let mut is_complete = read(&mut body, &mut bytes, max_kib.min(SMALL_RESPONSE_KIB)).await?;
    let mut permit = None;
    if !is_complete && max_kib > SMALL_RESPONSE_KIB {
        // The semaphore is never closed.
        permit = LARGE_RESPONSES.acquire().await.ok();
        let rest = timeout(LARGE_RESPONSE_TIMEOUT, read(&mut body, &mut bytes, max_kib)).await;
        let too_slow = |_| RequestError::Unreachable("the answer takes too long".to_owned());
        is_complete = rest.map_err(too_slow)??;
    }
    if !is_complete {
        let why = format!("it is larger than {max_kib} KiB");
        return Err(RequestError::InvalidResponse(why));
    }
    Ok(HttpResponse {
        status: head.status,
        headers: head.headers,
        body: bytes.freeze(),
        _permit: permit,
    })
}

/// Reads while the limit is not exceeded. Returns whether the body is complete.
async fn read(
    body: &mut Incoming,
    bytes: &mut BytesMut,
    max_kib: usize,
) -> Result<bool, RequestError> {
    while bytes.len() <= max_kib << 10 {
        match body.frame().await {
            Some(Ok(frame)) => bytes.extend(frame.into_data().ok()),
            Some(Err(_)) => {
                let why = "the answer ends early".to_owned();
                return Err(RequestError::Unreachable(why));
            }
            None => return Ok(true),
        }
    }
    Ok(false)
}
