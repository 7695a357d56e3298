//! The life of a request, from top to bottom.
//!
//! ```text
//! accept        TLS, connection limits                        server/connection.rs
//! route         path -> verb, resource, namespace, name       pipeline/route.rs
//! authenticate  certificate | token -> Principal              pipeline/authenticate.rs
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

mod work;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use insula_core::{Principal, Space, Spaces, Verb};

use self::work::work_of;
use crate::codec::answer::Answer;
use crate::codec::body::Body;
use crate::codec::input::Sent;
use crate::codec::view::View;
use crate::documents::Documents;
use crate::documents::metrics::Metrics;
use crate::documents::reviews;
use crate::flow_control::connection_tracker::{ConnectionTracker, TrackedConnection};
use crate::flow_control::cpu_bound;
use crate::flow_control::unsent::UnsentPool;
use crate::flow_control::{FlowControl, Limits, Work};
use crate::pipeline::audit::{self, Record};
use crate::pipeline::authenticate::{Authenticator, Peer};
use crate::pipeline::authorize::{
    Caller, Granted, authorize, authorize_issuer, authorize_path, permit,
};
use crate::pipeline::impersonate::{ImpersonatedRequest, impersonate};
use crate::pipeline::locate::locate;
use crate::pipeline::route::{Document, ResourcePath, Route, Target, route, unserved};
use crate::pipeline::service_account::Accounts;
use crate::read;
use crate::registry::Registry;
use crate::registry::versions;
use crate::request::context::RequestContext;
use crate::request::negotiate::{self, Accepted, Media};
use crate::request::query::Query;
use crate::request::receive::{MAX_BODY, receive};
use crate::status::{Result, StatusError};
use crate::subresources;
use crate::write::{self, Deleted, PatchFormat};

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
    /// The audit log, if configured.
    pub audit: Option<Arc<audit::Sink>>,
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
    let mut record = Record::begin(
        app.audit.as_deref(),
        &audit_id,
        &source.peer,
        &parts,
        &route,
    )
    .await;
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
    record.answered(answered.as_ref().map(|answer| answer.status.as_u16()));
    let answer = answered.unwrap_or_else(|error| Answer::failed(&parts, &query, &error));
    drain(body).await;
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
    let path = parts.uri.path();
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
    record.authenticated(&authenticated);
    source.connection.authenticated(&authenticated.home)?;
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
            authorize_unserved(app, &principal, parts, query, record).await?;
            return Err(error);
        }
    };
    let spaces = locate(&principal, route.named);
    record.located(&spaces);
    let context = RequestContext::new(query, headers);
    let payer = principal.home.clone();
    let answered = match route.target {
        Target::Document(document) => {
            let Spaces::One(space) = spaces else {
                return Err(StatusError::no_such_path());
            };
            let decision = match document {
                Document::Issuer => authorize_issuer(registry, &principal, &space, path).await,
                _ => authorize_path(registry, &principal, &space, "get", path).await,
            };
            record.authorized(decision, |reason| reason)?;
            app.await_room(&payer).await?;
            let answer = serve_document(app, &principal, &document, &space, parts, query).await?;
            Ok(answer.paced(app.flow_control.time_slices(&payer)))
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

/// Serves a document. Building one with many custom resources is CPU-bound work.
async fn serve_document(
    app: &App,
    principal: &Principal,
    document: &Document,
    space: &Space,
    parts: &Parts,
    query: &Query,
) -> Result<Answer> {
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
        cpu_bound::run_with_seat(&app.flow_control, payer, || custom.make_ready()).await?;
    }
    let accepted = negotiate::accepted(&parts.headers, query, caller.path().asked())?;
    if caller.path().verb.reads() {
        return serve_read(app, caller, query, accepted).await;
    }
    let payer = &caller.principal().home;
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
    let work = work_of(&app.registry, &caller, query);
    let context = caller.context;
    context.acquire_seat(&app.flow_control, payer, work).await?;
    let written = write(app, caller, parts, query, accepted, record, body).await;
    context.release_seat().await;
    record.annotated(context.take_annotations());
    // Webhooks may have added warnings to a rejected request, too.
    let warnings = context.take_warnings();
    match written {
        Ok(answer) => Ok(answer
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
    let objects = asked.objects?;
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
) -> Result<Answer> {
    let (flow_control, payer) = (&app.flow_control, &caller.principal().home);
    let watches = caller.path().verb == Verb::Watch;
    let open = watches
        .then(|| flow_control.acquire_watch(payer))
        .transpose()?;
    let work = work_of(&app.registry, &caller, query);
    if work.is_heavy() {
        // Seats for heavy reads are few, so wait for the requested revision before taking one.
        let _waiting = flow_control
            .acquire(payer, Work::Read { objects: 1 })
            .await?;
        read::await_requested_revision(&app.registry, query).await?;
    }
    let context = caller.context;
    context.acquire_seat(flow_control, payer, work).await?;
    let answer = read(app, caller, query, accepted).await;
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

async fn read(app: &App, caller: Caller<'_>, query: &Query, accepted: Accepted) -> Result<Answer> {
    let path = caller.path();
    let registry = &app.registry;
    let view = View::new(&path.kind, accepted, query)?;
    if let Some(name) = &path.subresource {
        return subresources::get(registry, caller, name, query, accepted).await;
    }
    let body = match path.verb {
        Verb::Watch => {
            if accepted.media == Media::Yaml {
                return Err(StatusError::no_such_form(
                    "only the following media types are accepted: \
                     application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
                ));
            }
            let body = read::watch(registry, caller, query, view).await?;
            let mut answer = Answer::new(StatusCode::OK, body);
            answer.content_type = match accepted.media {
                Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
                _ => "application/json",
            };
            return Ok(answer);
        }
        Verb::List => read::list(registry, caller, query, &view).await?,
        _ => read::get(registry, caller, query, &view).await?,
    };
    Ok(Answer::new(StatusCode::OK, body).of(accepted))
}

async fn write(
    app: &App,
    caller: Caller<'_>,
    parts: &Parts,
    query: &Query,
    accepted: Accepted,
    record: &mut Record<'_>,
    body: Bytes,
) -> Result<Answer> {
    let path = caller.path();
    let registry = &app.registry;
    let view = View::new(&path.kind, accepted, query)?;
    if path.verb == Verb::Patch {
        let format = PatchFormat::parse(negotiate::content_type(&parts.headers))?;
        if path.subresource.as_deref() == Some("scale") {
            return subresources::patch_scale(registry, caller, query, accepted, format, &body)
                .await;
        }
        let done = write::patch(registry, caller, query, format, &body).await?;
        versions::prepare(
            registry,
            Some(caller.context),
            &path.kind,
            std::iter::once(&done.object),
        )
        .await?;
        return Ok(Answer::done(&view, done)?.of(accepted));
    }
    let sent = Sent {
        media: negotiate::sent(&parts.headers)?,
        body,
    };
    let issuer = app.accounts.as_ref().map(|accounts| &accounts.issuer);
    if let Some(answer) =
        subresources::write(registry, issuer, caller, query, accepted, &sent).await?
    {
        return Ok(answer);
    }
    match path.verb {
        Verb::Create if reviews::is_review(path.of()) => {
            reviews::answer(
                registry,
                &app.authenticator,
                &caller,
                query,
                accepted,
                &sent,
            )
            .await
        }
        Verb::Create => {
            let done = write::create(registry, caller, query, &sent).await?;
            record.named(done.object.name());
            versions::prepare(
                registry,
                Some(caller.context),
                &path.kind,
                std::iter::once(&done.object),
            )
            .await?;
            Ok(Answer::done(&view, done)?.of(accepted))
        }
        Verb::Update => {
            let done = write::update(registry, caller, query, &sent).await?;
            versions::prepare(
                registry,
                Some(caller.context),
                &path.kind,
                std::iter::once(&done.object),
            )
            .await?;
            Ok(Answer::done(&view, done)?.of(accepted))
        }
        Verb::Delete => {
            let mut deleted = write::delete(registry, caller, query, &sent).await?;
            let warnings = std::mem::take(&mut deleted.warnings);
            if shows_object(path, &deleted) {
                let object = std::iter::once(&deleted.object);
                let context = Some(caller.context);
                versions::prepare(registry, context, &path.kind, object).await?;
            }
            let code = match deleted.accepted {
                true => StatusCode::ACCEPTED,
                false => StatusCode::OK,
            };
            let body = deleted_body(&view, path, deleted)?;
            Ok(Answer::new(code, body).of(accepted).warned(warnings))
        }
        _ => {
            let deleted = write::delete_collection(registry, caller, query, &sent, &view).await?;
            let listing = deleted.listing;
            let body = view.list(listing.objects, &listing.meta)?;
            Ok(Answer::new(StatusCode::OK, body)
                .of(accepted)
                .warned(deleted.warnings))
        }
    }
}

/// Returns the response to a delete: the object, or a success status if it is removed.
fn deleted_body(view: &View, path: &ResourcePath, deleted: Deleted) -> Result<Body> {
    let kind = path.of();
    if shows_object(path, &deleted) {
        return view.object(&deleted.object);
    }
    let tree = deleted.object.tree();
    let uid = tree
        .get("metadata")
        .and_then(|metadata| metadata.get("uid"));
    Ok(view
        .clone()
        .whole()
        .success(kind, deleted.object.name(), uid))
}

fn shows_object(path: &ResourcePath, deleted: &Deleted) -> bool {
    !deleted.gone || path.of().delete_returns_object
}

/// Reads the rest of a request body that was not needed, up to a limit.
///
/// An unread body resets the HTTP/2 stream, and after a thousand resets the connection is closed
/// with all its watches. A client with many rejected writes would lose its watches that way.
async fn drain<B>(body: Pin<&mut B>)
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    const MAX_DRAINED_BYTES: usize = 256 << 10;
    const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
    if !body.is_end_stream() {
        let rest = Limited::new(body, MAX_DRAINED_BYTES).collect();
        // A larger or slower body is not drained; the response does not depend on it.
        drop(tokio::time::timeout(DRAIN_TIMEOUT, rest).await);
    }
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
