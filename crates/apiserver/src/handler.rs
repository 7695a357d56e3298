//! The life of a request, from top to bottom.
//!
//! ```text
//! accept        TLS, bounds, deadline                                 server.rs, connection.rs
//! route         path -> verb, resource, namespace, name, space        route.rs
//! authenticate  certificate | token -> Principal                      authenticate.rs
//! impersonate   Principal -> whom they act for                        impersonate.rs
//! locate        Principal + URL -> Space                              locate.rs
//! authorize     may they enter? then RBAC inside -> Granted           authorize.rs
//! limit         their space's turn -> Seat                            limit.rs
//! receive       the body, bounded in size and time                    receive.rs
//! decode        negotiate, strict or warn                             negotiate.rs, intake.rs
//! read          get | list | watch from the cache                     read/
//! write         until committed or refused                            write/
//! encode        object | Table | PartialObjectMetadata | list | event view.rs
//! record        beside all of it: one event, however it ends          audit.rs
//! ```

mod work;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
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
use crate::flow_control::{FlowControl, Limits, Work};
use crate::pipeline::audit::{self, Record};
use crate::pipeline::authenticate::{Authenticator, Peer};
use crate::pipeline::authorize::{Caller, Granted, authorize, authorize_path, permit};
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

/// Everything that requests are answered with.
pub struct App {
    /// Objects.
    pub registry: Arc<Registry>,
    /// Who is who.
    pub authenticator: Authenticator,
    /// Discovery and schemas.
    pub documents: Documents,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What issues tokens of service accounts, and believes them.
    pub accounts: Option<Arc<Accounts>>,
    /// Where every request is written down, if anywhere.
    pub audit: Option<Arc<audit::Sink>>,
    /// Seats for the work of requests.
    pub flow_control: FlowControl,
    /// Every bound.
    pub limits: Limits,
    /// Who is connected.
    pub connections: Arc<ConnectionTracker>,
}

/// The connection that a request came on.
#[derive(Debug)]
pub struct Source {
    /// What the client showed when it connected.
    pub peer: Peer,
    /// The connection's entry in the connection tracker.
    pub connection: Arc<TrackedConnection>,
}

/// How long a request may take that says nothing about it.
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

/// The answer to `HEAD`: HTTP/2 would send the body as it is.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    let length = http_body::Body::size_hint(response.body()).exact();
    if let Some(length) = length {
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    *response.body_mut() = Body::empty();
    response
}

/// The stages, in their order.
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
        && document.is_open()
    {
        return app.documents.open(document, query);
    }
    let registry = &app.registry;
    let headers = &parts.headers;
    let caller = app
        .authenticator
        .authenticate(registry, &source.peer, headers)
        .await?;
    record.authenticated(&caller);
    source.connection.authenticated(&caller.home)?;
    let asked = ImpersonatedRequest {
        parts,
        query,
        route: &route,
    };
    let impersonated = impersonate(registry, &caller, asked).await;
    let impersonated = record.impersonated(impersonated)?;
    let principal = impersonated.unwrap_or(caller);
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
    match route.target {
        Target::Document(document) => {
            let Spaces::One(space) = spaces else {
                return Err(StatusError::no_such_path());
            };
            let decision = authorize_path(registry, &principal, &space, "get", path).await;
            record.authorized(decision, |reason| reason)?;
            let answer = serve_document(app, &principal, &document, &space, parts, query).await?;
            Ok(answer.paced(app.flow_control.time_slices(&principal.home)))
        }
        Target::Resource(resource) => {
            let decision = authorize(registry, principal, spaces, resource, query).await;
            let granted = record.authorized(decision, Granted::reason)?;
            let warning = deprecation(&granted);
            let caller = Caller {
                granted: &granted,
                context: &context,
            };
            match serve_resource(app, caller, parts, query, record, body).await {
                Ok(answer) => Ok(answer.warned(warning)),
                Err(error) => Err(error.warned(warning)),
            }
        }
    }
}

/// A document. What users define may be much, and takes its turn.
async fn serve_document(
    app: &App,
    principal: &Principal,
    document: &Document,
    space: &Space,
    parts: &Parts,
    query: &Query,
) -> Result<Answer> {
    let apis = app.registry.apis(space);
    let defined = apis.is_some_and(|apis| !apis.offers().is_empty());
    let build = || {
        app.documents
            .answer(&app.registry, document, space, parts, query)
    };
    if defined && document.has_schemas() {
        return cpu_bound::run_with_seat(&app.flow_control, &principal.home, build).await?;
    }
    let work = Work::Read { objects: 1 };
    let _seat = app.flow_control.acquire(&principal.home, work).await?;
    build()
}

/// The stages that are left once it is caller what is asked of objects.
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
    // A seat for the work is taken when the body is there: who sends slowly must not sit on
    // one.
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
    // Others may have something to say to whoever is refused, too.
    let warnings = context.take_warnings();
    match written {
        Ok(answer) => Ok(answer
            .warned(warnings)
            .paced(app.flow_control.time_slices(payer))),
        Err(error) => Err(error.warned(warnings)),
    }
}

/// The route to what no table knows, if the space that is asked serves it.
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
        // What is common to all spaces is what the system publishes.
        Spaces::All => Space::System,
    };
    let apis = registry.apis(&space)?;
    let path = objects.defined(&apis, asked.named.as_ref())?;
    Some(path.map(|path| Route {
        named: asked.named,
        target: Target::Resource(path),
    }))
}

/// Refuses who may not look for what is not there: only those who may learn that it is not.
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

/// Reads when there is a seat. What comes of it is sent in turns with others, if it is large.
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
        // There are few seats for this: who sits on one must not wait.
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
    if work.is_heavy() || !watches {
        answer = answer.paced(flow_control.time_slices(payer));
    }
    if let Some(open) = open {
        answer.body = answer.body.counted(open);
    }
    Ok(answer)
}

/// What everybody is told who uses a version that should no longer be used.
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

/// What a deletion is answered with: the object, or that it is gone.
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

/// Reads what nobody wanted to read, if it is not much.
///
/// Otherwise the stream is reset, and a connection on which that happened a thousand times
/// is closed, with all watches on it: those of a client whose writes are refused, say.
async fn drain<B>(body: Pin<&mut B>)
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    const MAX_DRAINED_BYTES: usize = 256 << 10;
    const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
    if !body.is_end_stream() {
        let rest = Limited::new(body, MAX_DRAINED_BYTES).collect();
        // The answer is the same if it is more, or takes longer.
        drop(tokio::time::timeout(DRAIN_TIMEOUT, rest).await);
    }
}

/// How long the request may take: `timeout=32s`, up to the limit.
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
