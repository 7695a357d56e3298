//! The last stage of an authorized request: the verb is dispatched to `read`, `write` or
//! `subresources`, and its result encoded.

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use insula_core::Verb;
use insula_kinds::Value;

use super::App;
use crate::codec::answer::{Answer, Done};
use crate::codec::body::Body;
use crate::codec::input::Sent;
use crate::codec::view::View;
use crate::documents::reviews;
use crate::pipeline::audit::Record;
use crate::pipeline::authorize::Caller;
use crate::pipeline::route::ResourcePath;
use crate::read;
use crate::registry::Registry;
use crate::registry::versions;
use crate::request::negotiate::{self, Accepted};
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use crate::subresources;
use crate::write::{self, Deleted, PatchFormat};

/// Reads what the request asks for.
pub(super) async fn read(
    app: &App,
    caller: Caller<'_>,
    query: &Query,
    accepted: Accepted,
) -> Result<Answer> {
    let path = caller.path();
    let registry = &app.registry;
    let fields = registry.tenant_fields_in(caller.spaces());
    let view = View::new(&path.kind, accepted, query, fields)?;
    if let Some(name) = &path.subresource {
        return Box::pin(subresources::get(registry, caller, name, query, accepted)).await;
    }
    let body = match path.verb {
        Verb::Watch => {
            let content_type = accepted.media.stream();
            let content_type = content_type.ok_or_else(StatusError::no_such_stream)?;
            let watch = read::watch(registry, &app.authenticator.trust, caller, query, view);
            let body = Box::pin(watch).await?;
            let mut answer = Answer::new(StatusCode::OK, body);
            answer.content_type = content_type;
            return Ok(answer);
        }
        Verb::List => Box::pin(read::list(registry, caller, query, &view)).await?,
        _ => read::get(registry, caller, query, &view).await?,
    };
    Ok(Answer::new(StatusCode::OK, body).of(accepted))
}

/// Writes what the request asks for.
pub(super) async fn write(
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
    let fields = registry.tenant_fields_in(caller.spaces());
    let view = View::new(&path.kind, accepted, query, fields)?;
    if path.verb == Verb::Patch {
        let format = PatchFormat::parse(negotiate::content_type(&parts.headers))?;
        if path.subresource.as_deref() == Some("scale") {
            let patch = subresources::patch_scale(registry, caller, query, accepted, format, &body);
            return Box::pin(patch).await;
        }
        let done = write::patch(registry, caller, query, format, &body).await?;
        return written(registry, caller, &view, accepted, done).await;
    }
    let sent = Sent {
        media: negotiate::sent(&parts.headers)?,
        body,
    };
    let issuer = app.accounts.as_ref().map(|accounts| &accounts.issuer);
    if path.subresource.is_some() || subresources::is_binding(path) {
        let written = subresources::write(registry, issuer, caller, query, accepted, &sent);
        if let Some(answer) = Box::pin(written).await? {
            return Ok(answer);
        }
    }
    match path.verb {
        Verb::Create if reviews::is_review(path.of()) => {
            let authenticator = &app.authenticator;
            Box::pin(reviews::answer(
                registry,
                authenticator,
                &caller,
                query,
                accepted,
                &sent,
            ))
            .await
        }
        Verb::Create => {
            let done = write::create(registry, caller, query, &sent).await?;
            record.named(done.object.name());
            written(registry, caller, &view, accepted, done).await
        }
        Verb::Update => {
            let done = write::update(registry, caller, query, &sent).await?;
            written(registry, caller, &view, accepted, done).await
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
            let body = deleted_body(&view, path, deleted, record)?;
            Ok(Answer::new(code, body).of(accepted).warned(warnings))
        }
        _ => {
            let deleted = write::delete_collection(registry, caller, query, &sent, &view);
            let deleted = Box::pin(deleted).await?;
            let listing = deleted.listing;
            let body = view.list(listing.objects, &listing.meta)?;
            Ok(Answer::new(StatusCode::OK, body)
                .of(accepted)
                .warned(deleted.warnings))
        }
    }
}

/// Returns the response to a create, an update or a patch: the object, in the version of the request.
async fn written(
    registry: &Registry,
    caller: Caller<'_>,
    view: &View,
    accepted: Accepted,
    done: Done,
) -> Result<Answer> {
    let (context, kind) = (Some(caller.context), &caller.path().kind);
    let object = std::iter::once(&done.object);
    versions::prepare(registry, context, kind, object).await?;
    Ok(Answer::done(view, done)?.of(accepted))
}

/// Returns the response to a delete: the object, or a success status if it is removed.
fn deleted_body(
    view: &View,
    path: &ResourcePath,
    deleted: Deleted,
    record: &mut Record<'_>,
) -> Result<Body> {
    let kind = path.of();
    if shows_object(path, &deleted) {
        return view.object(&deleted.object);
    }
    let uid = deleted.object.uid().map(Value::from);
    let uid = uid.as_ref();
    record.deleted(kind, deleted.object.name(), uid);
    Ok(view
        .clone()
        .whole()
        .success(kind, deleted.object.name(), uid))
}

fn shows_object(path: &ResourcePath, deleted: &Deleted) -> bool {
    !deleted.gone || path.of().delete_returns_object
}
