//! The paths of a webhook server and their handlers.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use serde_json::Value;
use tracing::error;

use super::admission::{self, AdmissionRequest, AdmissionResponse, Mode, ObjectSpace};
use super::conversion::{self, ConversionHandler, Panicked};
use crate::cpu_bound::Pool;

/// The size of a body above which a review is handled off the threads of the runtime.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// The threads for large admission reviews. Their handlers may read objects, which may have to be
/// converted, so that conversion has threads of its own.
static ADMISSION: Pool = Pool::new();
/// The threads for large conversion reviews.
static CONVERSION: Pool = Pool::new();

type AdmissionHandler =
    Arc<dyn Fn(AdmissionRequest) -> BoxFuture<'static, AdmissionResponse> + Send + Sync>;

/// The handlers of an operator, by path. A path that is added twice has the last handler.
///
/// Requests to other paths get 404, other methods 405, other content types 415, and bodies that
/// are no review of the expected kind 400. `/healthz` responds to GET.
#[derive(Clone)]
pub struct Router {
    routes: BTreeMap<String, Route>,
}

/// The handler of a path.
#[derive(Clone)]
pub(super) enum Route {
    Health,
    Admission(Mode, AdmissionHandler),
    Conversion(ConversionHandler),
}

impl Router {
    /// Creates a router with `/healthz` only.
    pub fn new() -> Self {
        Self {
            routes: BTreeMap::from([("/healthz".to_owned(), Route::Health)]),
        }
    }

    /// Adds the handler of a validating webhook.
    #[must_use]
    pub fn validating<F, R>(self, path: &str, handler: F) -> Self
    where
        F: Fn(AdmissionRequest) -> R + Send + Sync + 'static,
        R: Future<Output = AdmissionResponse> + Send + 'static,
    {
        let handler = Arc::new(move |request| handler(request).boxed());
        self.with(path, Route::Admission(Mode::Validating, handler))
    }

    /// Adds the handler of a mutating webhook.
    #[must_use]
    pub fn mutating<F, R>(self, path: &str, handler: F) -> Self
    where
        F: Fn(AdmissionRequest) -> R + Send + Sync + 'static,
        R: Future<Output = AdmissionResponse> + Send + 'static,
    {
        let handler = Arc::new(move |request| handler(request).boxed());
        self.with(path, Route::Admission(Mode::Mutating, handler))
    }

    /// Adds the handler of a conversion webhook. It converts one object to the desired
    /// `apiVersion`; objects that have it already are not passed to it.
    #[must_use]
    pub fn conversion<F>(self, path: &str, handler: F) -> Self
    where
        F: Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    {
        self.with(path, Route::Conversion(Arc::new(handler)))
    }

    fn with(mut self, path: &str, route: Route) -> Self {
        self.routes.insert(path.to_owned(), route);
        self
    }

    /// Responds to a request of the API server in this process. `space` is that of the object
    /// under review. A panic of the handler is a response with 500.
    pub async fn handle(
        &self,
        request: Request<Bytes>,
        space: Option<ObjectSpace>,
    ) -> Response<Bytes> {
        let (head, body) = request.into_parts();
        match self.route(&head) {
            Ok(route) => route.respond(body, space).await,
            Err(refusal) => *refusal,
        }
    }

    /// Returns the route of a request, or the response that refuses it.
    pub(super) fn route(&self, head: &Parts) -> Result<&Route, Box<Response<Bytes>>> {
        let path = head.uri.path();
        let Some(route) = self.routes.get(path) else {
            let text = "no webhook has this path";
            return Err(Box::new(plain(StatusCode::NOT_FOUND, text)));
        };
        let (allowed, method) = match route {
            Route::Health => (matches!(head.method, Method::GET | Method::HEAD), "GET"),
            Route::Admission(..) | Route::Conversion(_) => (head.method == Method::POST, "POST"),
        };
        if !allowed {
            let text = format!("only {method} is allowed");
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, &text);
            let method = HeaderValue::from_static(method);
            response.headers_mut().insert(ALLOW, method);
            return Err(Box::new(response));
        }
        if !matches!(route, Route::Health) && !is_json(head.headers.get(CONTENT_TYPE)) {
            let text = "the content type must be application/json";
            return Err(Box::new(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
        }
        Ok(route)
    }
}

impl Default for Router {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.routes.keys()).finish()
    }
}

impl Route {
    /// Calls the handler; off the threads of the runtime if the body is large.
    pub async fn respond(&self, body: Bytes, space: Option<ObjectSpace>) -> Response<Bytes> {
        let pool = match self {
            Self::Admission(..) if body.len() > MAX_INLINE_BYTES => &ADMISSION,
            Self::Conversion(_) if body.len() > MAX_INLINE_BYTES => &CONVERSION,
            _ => return self.handle(body, space).await,
        };
        let route = self.clone();
        pool.run(async move { route.handle(body, space).await })
            .await
    }

    async fn handle(&self, body: Bytes, space: Option<ObjectSpace>) -> Response<Bytes> {
        let result = match self {
            Self::Health => return plain(StatusCode::OK, "ok"),
            Self::Admission(mode, handler) => admit(*mode, handler, &body, space).await,
            Self::Conversion(handler) => convert(handler, &body).await,
        };
        match result {
            Ok(review) => {
                let mut response = Response::new(Bytes::from(review.to_string()));
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                response
            }
            Err((status, text)) => plain(status, &text),
        }
    }
}

async fn admit(
    mode: Mode,
    handler: &AdmissionHandler,
    body: &[u8],
    space: Option<ObjectSpace>,
) -> Result<Value, (StatusCode, String)> {
    let mut request = admission::parse(body).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    request.space = space;
    let uid = request.uid.clone();
    let response = AssertUnwindSafe(async { handler(request).await }).catch_unwind();
    let response = response.await.map_err(|_| panicked())?;
    let failed = |why| (StatusCode::INTERNAL_SERVER_ERROR, why);
    response.review(&uid, mode).map_err(failed)
}

async fn convert(handler: &ConversionHandler, body: &[u8]) -> Result<Value, (StatusCode, String)> {
    let request = conversion::parse(body).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    let converted = conversion::convert(handler, request).await;
    converted.map_err(|Panicked| panicked())
}

fn panicked() -> (StatusCode, String) {
    error!("webhook handler panicked");
    let text = "the handler panicked".to_owned();
    (StatusCode::INTERNAL_SERVER_ERROR, text)
}

fn is_json(content_type: Option<&HeaderValue>) -> bool {
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|text| text.split(';').next());
    essence.is_some_and(|text| text.trim().eq_ignore_ascii_case("application/json"))
}

/// Returns a response in plain text.
pub(super) fn plain(status: StatusCode, text: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(format!("{text}\n")));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests;
