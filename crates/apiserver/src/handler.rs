//! The life of a request, from top to bottom.
//!
//! ```text
//! accept        TLS, connection limits                        server/connection.rs
//! route         path -> verb, resource, namespace, name       pipeline/route.rs
//! authenticate  certificate | token -> Principal              pipeline/authenticate.rs
//! rate limit    tokens of the space, or 429                   flow_control/rate_limiter.rs
//! impersonate   Principal -> impersonated Principal           pipeline/impersonate.rs
//! locate        Principal + URL -> Space                      pipeline/locate.rs
//! authorize     access to the space, then RBAC -> Granted     pipeline/authorize.rs
//! negotiate     media type and form of the response           request/negotiate.rs
//! receive       the body, limited in size and time            request/receive.rs
//! flow control  fair queue of the space -> Seat               flow_control.rs
//! read          get | list | watch from the cache             read/
//! decode        body -> object, with strict checks            codec/input.rs
//! write         admit, validate, commit or reject             write/, subresources/
//! encode        object | Table | metadata | list | event      codec/view.rs, codec/answer.rs
//! audit         beside all of it: one event per request       pipeline/audit.rs
//! ```
//!
//! Every request that waits is a future, and what the future has room for is moved and kept. So
//! what few requests do is boxed where it begins, and a write as a whole.

mod dispatch;
mod work;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use insula_core::{Principal, Space, Spaces, Verb};

use self::work::{decoded_bytes, work_of};
use crate::codec::answer::Answer;
use crate::codec::body::Body;
use crate::documents::Documents;
use crate::documents::audit_events;
use crate::documents::metrics::Metrics;
use crate::flow_control::connection_tracker::{ConnectionTracker, TrackedConnection};
use crate::flow_control::cpu_bound;
use crate::flow_control::unsent::UnsentPool;
use crate::flow_control::{FlowControl, Limits, Work};
use crate::pipeline::audit::{self, Record};
use crate::pipeline::authenticate::{Authenticator, Peer};
use crate::pipeline::authorize::{
    Caller, Granted, authorize, authorize_issuer, authorize_path, permit,
};
use crate::pipeline::credential_check::CredentialCheck;
use crate::pipeline::impersonate::{ImpersonatedRequest, impersonate};
use crate::pipeline::locate::locate;
use crate::pipeline::route::{Document, Route, Target, route, unserved};
use crate::pipeline::service_account::Accounts;
use crate::read;
use crate::registry::Registry;
use crate::request::context::RequestContext;
use crate::request::negotiate::{self, Accepted};
use crate::request::query::Query;
use crate::request::receive::{MAX_BODY, receive};
use crate::status::{Result, StatusError};

/// The state that all requests share.
pub struct App {
    /// The objects of all spaces.
    pub registry: Arc<Registry>,
    /// Authenticates clients.
    pub authenticator: Authenticator,
    /// Discovery, OpenAPI and other documents.
    pub documents: Documents,
    /// The server's metrics.
    pub metrics: Arc<Metrics>,
    /// Issues and verifies service account tokens, if the server has a key.
    pub accounts: Option<Arc<Accounts>>,
    /// The audit of requests, if configured.
    pub audit: Option<Arc<audit::Audit>>,
    /// Seats and queues for the work of requests.
    pub flow_control: FlowControl,
    /// The responses that clients have yet to take.
    pub unsent: Arc<UnsentPool>,
    /// The limits of the server.
    pub limits: Limits,
    /// The open connections.
    pub connections: Arc<ConnectionTracker>,
}

/// The connection that a request came on.
#[derive(Debug)]
pub struct Source {
    /// The client's address and certificate.
    pub peer: Peer,
    /// The connection's entry in the connection tracker.
    pub connection: Arc<TrackedConnection>,
}

/// The default and the maximum of a request's timeout. It does not end a response that streams.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Answers one request.
pub async fn serve<B>(app: &App, source: &Source, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or(""));
    let route = route(&parts.method, parts.uri.path(), query.flag("watch"));
    let audit_id = audit::id(&parts.headers);
    let mut record =
        Record::begin(app.audit.as_ref(), &audit_id, &source.peer, &parts, &route).await;
    let deadline = deadline(&query);
    let mut body = pin!(body);
    let answered = match deadline {
        Err(error) => Err(error),
        Ok(deadline) => {
            let body = body.as_mut();
            let answer = answer(app, source, &parts, &query, route, &mut record, body);
            let in_time = tokio::time::timeout(deadline, answer).await;
            in_time.unwrap_or_else(|_| Err(StatusError::timeout()))
        }
    };
    let answered = record.answered(answered).await;
    let answer = answered.unwrap_or_else(|error| Answer::failed(&parts, &query, &error));
    if !body.is_end_stream() {
        Box::pin(drain(body)).await;
    }
    app.metrics.count(&parts.method, answer.status);
    let response = answer.respond(audit_id);
    if parts.method == Method::HEAD {
        return without_body(response);
    }
    response
}

/// Removes the body from the response to `HEAD`, which HTTP/2 would otherwise send.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    let length = http_body::Body::size_hint(response.body()).exact();
    if let Some(length) = length {
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    *response.body_mut() = Body::empty();
    response
}

/// Runs the stages in order.
async fn answer<B>(
    app: &App,
    source: &Source,
    parts: &Parts,
    query: &Query,
    route: Result<Route>,
    record: &mut Record<'_>,
    body: B,
) -> Result<Answer>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Ok(route) = &route
        && let Target::Document(document) = &route.target
        && is_public(route, document, source, &parts.headers)
    {
        if document.depends_on_tenant() {
            app.registry.await_own_writes().await;
        }
        let named = route.named.as_ref();
        return app.documents.open(&app.registry, named, document, query);
    }
    let registry = &app.registry;
    let headers = &parts.headers;
    let authenticated = app
        .authenticator
        .authenticate(registry, &source.peer, headers)
        .await?;
    record.authenticated(&authenticated).await?;
    // As early as the space is known: what follows is the work that a flood would cause.
    let charged = app.flow_control.charge_request(&authenticated.home);
    // A request on one connection too many counts as well.
    source.connection.authenticated(&authenticated.home)?;
    if let Err(error) = charged {
        source.connection.note_rate_exceeded();
        return Err(error);
    }
    let asked = ImpersonatedRequest {
        parts,
        query,
        route: &route,
    };
    let impersonated = impersonate(registry, &authenticated, asked).await;
    let impersonated = record.impersonated(impersonated)?;
    let principal = impersonated.unwrap_or(authenticated);
    let route = match route.or_else(|error| {
        let custom = route_custom(registry, &principal, parts, query);
        custom.unwrap_or(Err(error))
    }) {
        Ok(route) => {
            record.routed(&route);
            route
        }
        Err(error) => {
            Box::pin(authorize_unserved(app, &principal, parts, query, record)).await?;
            return Err(error);
        }
    };
    let spaces = locate(&principal, route.named);
    record.located(&spaces);
    let credential = CredentialCheck::new(registry, &app.authenticator.trust, &principal);
    let context = RequestContext::new(query, headers).with_credential(credential);
    let payer = principal.home.clone();
    let answered = match route.target {
        Target::Document(document) => {
            let Spaces::One(space) = spaces else {
                return Err(StatusError::no_such_path());
            };
            let opened = open_document(app, &principal, &document, &space, parts, query, record);
            Box::pin(opened).await
        }
        Target::Resource(resource) => {
            let decision = authorize(registry, principal, spaces, resource, query).await;
            let granted = record.authorized(decision, Granted::reason)?;
            let warning = deprecation(&granted);
            let caller = Caller {
                granted: &granted,
                context: &context,
            };
            app.await_room(&payer).await?;
            match serve_resource(app, caller, parts, query, record, body).await {
                Ok(answer) => Ok(answer.warned(warning)),
                Err(error) => Err(error.warned(warning)),
            }
        }
    };
    answered.map(|answer| answer.paid_by(payer))
}

impl App {
    /// Whether the connection is served with pauses, because its client goes on although its space
    /// is far beyond its rate.
    pub fn is_flooded_by(&self, connection: &TrackedConnection) -> bool {
        let space = connection.space_over_rate();
        space.is_some_and(|space| self.flow_control.is_flooded(space))
    }

    /// Waits until the caller's space has room for a response.
    async fn await_room(&self, payer: &Space) -> Result<()> {
        let timeout = self.limits.queue_timeout;
        self.unsent.await_room(payer, timeout).await
    }
}

/// Whether a document is served without authentication. The plain issuer is; with a credential
/// its path leads to the issuer of the credential's space.
fn is_public(route: &Route, document: &Document, source: &Source, headers: &HeaderMap) -> bool {
    let in_system = matches!(&route.named, None | Some(Spaces::One(Space::System)));
    let is_plain_issuer = *document == Document::Issuer && in_system;
    let anonymous = !Authenticator::has_credential(&source.peer, headers);
    document.is_open() || (is_plain_issuer && anonymous)
}

/// Authorizes a request for a document, and serves it.
async fn open_document(
    app: &App,
    principal: &Principal,
    document: &Document,
    space: &Space,
    parts: &Parts,
    query: &Query,
    record: &mut Record<'_>,
) -> Result<Answer> {
    let (registry, path) = (&app.registry, parts.uri.path());
    let decision = match document {
        Document::Issuer => authorize_issuer(registry, principal, space, path).await,
        _ => authorize_path(registry, principal, space, "get", path).await,
    };
    record.authorized(decision, |reason| reason)?;
    let payer = &principal.home;
    app.await_room(payer).await?;
    let answer = serve_document(app, principal, document, space, parts, query).await?;
    Ok(answer.paced(app.flow_control.time_slices(payer)))
}

/// Serves a document. Building one with many custom resources is CPU-bound work.
async fn serve_document(
    app: &App,
    principal: &Principal,
    document: &Document,
    space: &Space,
    parts: &Parts,
    query: &Query,
) -> Result<Answer> {
    if *document == Document::AuditEvents {
        return audit_events::answer(
            &app.registry,
            &app.flow_control,
            app.audit.as_deref(),
            app.documents.address(),
            principal,
            space,
            query,
        )
        .await;
    }
    let apis = app.registry.apis(space);
    let has_custom = apis.is_some_and(|apis| !apis.offers().is_empty());
    let build = || {
        app.documents
            .answer(&app.registry, document, space, parts, query)
    };
    if has_custom && document.has_schemas() {
        return cpu_bound::run_with_seat(&app.flow_control, &principal.home, build).await?;
    }
    let work = Work::Read { objects: 1 };
    let _seat = app.flow_control.acquire(&principal.home, work).await?;
    build()
}

/// Runs the remaining stages of an authorized request for a resource.
async fn serve_resource<B>(
    app: &App,
    caller: Caller<'_>,
    parts: &Parts,
    query: &Query,
    record: &mut Record<'_>,
    body: B,
) -> Result<Answer>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Some(custom) = caller.path().kind.custom()
        && !custom.is_ready()
    {
        let payer = &caller.principal().home;
        let ready = cpu_bound::run_with_seat(&app.flow_control, payer, || custom.make_ready());
        Box::pin(ready).await?;
    }
    let accepted = negotiate::accepted(&parts.headers, query, caller.path().asked())?;
    if caller.path().verb.reads() {
        return serve_read(app, caller, query, accepted, record).await;
    }
    Box::pin(serve_write(
        app, caller, parts, query, accepted, record, body,
    ))
    .await
}

/// Receives the body of a write, and serves it with a seat.
async fn serve_write<B>(
    app: &App,
    caller: Caller<'_>,
    parts: &Parts,
    query: &Query,
    accepted: Accepted,
    record: &mut Record<'_>,
    body: B,
) -> Result<Answer>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let payer = &caller.principal().home;
    let work = work_of(&app.registry, &caller, query);
    app.flow_control.charge_work(payer, work)?;
    // The seat for the work is acquired only after the body is received: a slow client must
    // not occupy one.
    let max_bytes = MAX_BODY as u64;
    let bytes = body
        .size_hint()
        .upper()
        .map_or(max_bytes, |bytes| bytes.min(max_bytes));
    let _room = app
        .flow_control
        .acquire(payer, Work::Receive { bytes })
        .await?;
    record.reading();
    let body = receive(body, &app.limits).await?;
    record.received(&body);
    app.flow_control.charge_body(payer, body.len())?;
    let encoded = record.uncompressed(accepted);
    let decoded = decoded_bytes(&app.registry, &caller, &parts.headers, &body)?;
    let _decoded = app.flow_control.acquire_decoded(payer, decoded).await?;
    let context = caller.context;
    context.acquire_seat(&app.flow_control, payer, work).await?;
    // The client decided when the body arrived.
    context.check_credential().await?;
    caller.granted.recheck_if_changed(&app.registry)?;
    let written = dispatch::write(app, caller, parts, query, encoded, record, body).await;
    context.release_seat().await;
    record.annotated(context.take_annotations());
    // Webhooks may have added warnings to a rejected request, too.
    let warnings = context.take_warnings();
    match written {
        Ok(answer) => Ok(record
            .responded(answer, accepted)
            .warned(warnings)
            .paced(app.flow_control.time_slices(payer))),
        Err(error) => Err(error.warned(warnings)),
    }
}

/// Returns the route to a custom resource, if the space serves it.
fn route_custom(
    registry: &Registry,
    principal: &Principal,
    parts: &Parts,
    query: &Query,
) -> Option<Result<Route>> {
    let asked = unserved(&parts.method, parts.uri.path(), query.flag("watch"));
    let objects = asked.objects.filter(|_| !asked.is_contradictory)?;
    let space = match locate(principal, asked.named.clone()) {
        Spaces::One(space) => space,
        // Across all spaces only the definitions published by the system are served.
        Spaces::All => Space::System,
    };
    let apis = registry.apis(&space)?;
    let path = objects.defined(&apis, asked.named.as_ref())?;
    Some(path.map(|path| Route {
        named: asked.named,
        target: Target::Resource(path),
    }))
}

/// Authorizes a request for a path that is not served: without the right to it the response is
/// 403, so that 404 reveals nothing.
async fn authorize_unserved(
    app: &App,
    principal: &Principal,
    parts: &Parts,
    query: &Query,
    record: &mut Record<'_>,
) -> Result<()> {
    let (registry, path) = (&app.registry, parts.uri.path());
    let asked = unserved(&parts.method, path, query.flag("watch"));
    let spaces = locate(principal, asked.named);
    record.located(&spaces);
    let decision = match (asked.objects, &spaces) {
        (Some(objects), spaces) => permit(registry, principal, spaces, &objects.attributes()).await,
        (None, Spaces::One(space)) => {
            let verb = parts.method.as_str().to_ascii_lowercase();
            authorize_path(registry, principal, space, &verb, path).await
        }
        (None, Spaces::All) => return Ok(()),
    };
    record.authorized(decision, |reason| reason).map(drop)
}

/// Serves a read with a seat. A large response is then sent in turns with those of other spaces.
async fn serve_read(
    app: &App,
    caller: Caller<'_>,
    query: &Query,
    accepted: Accepted,
    record: &mut Record<'_>,
) -> Result<Answer> {
    let (flow_control, payer) = (&app.flow_control, &caller.principal().home);
    let watches = caller.path().verb == Verb::Watch;
    let open = watches
        .then(|| flow_control.acquire_watch(payer))
        .transpose()?;
    let work = work_of(&app.registry, &caller, query);
    flow_control.charge_work(payer, work)?;
    if work.is_heavy() {
        // Seats for heavy reads are few, so wait for the requested revision before taking one.
        let _waiting = flow_control
            .acquire(payer, Work::Read { objects: 1 })
            .await?;
        Box::pin(read::await_requested_revision(&app.registry, query)).await?;
    }
    let context = caller.context;
    context.acquire_seat(flow_control, payer, work).await?;
    let encoded = record.uncompressed(accepted);
    let answer = dispatch::read(app, caller, query, encoded).await;
    // The read may have waited for a revision that is later than a revocation.
    let answer = answer.and_then(|answer| context.check_credential_cached().map(|()| answer));
    // Before the seat is released: a list may be assembled.
    let answer = answer.map(|answer| record.responded(answer, accepted));
    context.release_seat().await;
    let mut answer = answer?;
    if !answer.body.is_shared() {
        app.unsent.check_room(payer, answer.body.held_bytes())?;
    }
    if work.is_heavy() || !watches {
        answer = answer.paced(flow_control.time_slices(payer));
    }
    if let Some(open) = open {
        answer.body = answer.body.counted(open);
    }
    Ok(answer)
}

/// Returns the warning for a deprecated version.
fn deprecation(granted: &Granted) -> Option<String> {
    let kind = &granted.path().kind;
    if let Some(custom) = kind.custom() {
        return custom.version().warning.clone();
    }
    let warning = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Endpoints") => {
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
        }
        ("", "ComponentStatus") => "v1 ComponentStatus is deprecated in v1.19+",
        _ => return None,
    };
    Some(warning.to_owned())
}

/// Reads the rest of a request body that was not needed, up to a limit.
///
/// An unread body resets the HTTP/2 stream, and after a thousand resets the connection is closed
/// with all its watches. A client with many rejected writes would lose its watches that way.
async fn drain<B>(mut body: Pin<&mut B>)
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    const MAX_DRAINED_BYTES: usize = 256 << 10;
    const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
    let rest = async {
        let mut drained = 0;
        while let Some(Ok(frame)) = body.frame().await {
            drained += frame.data_ref().map_or(0, Bytes::len);
            if drained > MAX_DRAINED_BYTES {
                return;
            }
        }
    };
    // A larger or slower body is not drained; the response does not depend on it.
    drop(tokio::time::timeout(DRAIN_TIMEOUT, rest).await);
}

/// Returns the timeout of a request, such as `timeout=32s`, up to the maximum.
fn deadline(query: &Query) -> Result<Duration> {
    let Some(text) = query.get("timeout") else {
        return Ok(REQUEST_TIMEOUT);
    };
    if text.is_empty() {
        return Ok(REQUEST_TIMEOUT);
    }
    let Some(nanos) = insula_gotext::duration::parse(text) else {
        let quoted = insula_gotext::quote(text);
        return Err(StatusError::bad_request(format!(
            "invalid timeout specified in the request URL - time: invalid duration {quoted}"
        )));
    };
    // Kubernetes treats zero and negative timeouts like an absent one.
    Ok(match u64::try_from(nanos) {
        Err(_) | Ok(0) => REQUEST_TIMEOUT,
        Ok(nanos) => Duration::from_nanos(nanos).min(REQUEST_TIMEOUT),
    })
}
