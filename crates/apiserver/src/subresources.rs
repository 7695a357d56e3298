//! Subresources with a body of their own: scale, binding, eviction, token.
//!
//! `status`, `finalize`, `approval` and the like are ordinary updates; a table lists the fields
//! that they may not change.

mod eviction;
mod pod;
mod scale;
mod token;

use bytes::Bytes;
use insula_core::Verb;

use crate::codec::answer::Answer;
use crate::codec::input::Sent;
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::pipeline::route::ResourcePath;
use crate::pipeline::service_account::Issuer;
use crate::read;
use crate::registry::Registry;
use crate::request::negotiate::Accepted;
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use crate::write::PatchFormat;

/// Reads a subresource.
pub async fn get(
    registry: &Registry,
    caller: Caller<'_>,
    name: &str,
    query: &Query,
    accepted: Accepted,
) -> Result<Answer> {
    if name == "scale" {
        return scale::get(registry, caller, accepted).await;
    }
    reject_data_plane(name)?;
    let fields = registry.tenant_fields_in(caller.spaces());
    let view = View::new(&caller.path().kind, accepted, query, fields)?;
    let body = read::get(registry, caller, query, &view).await?;
    Ok(Answer::new(http::StatusCode::OK, body).of(accepted))
}

/// Whether the path is that of bindings, which are no objects.
pub fn is_binding(path: &ResourcePath) -> bool {
    !path.kind.is_custom() && path.kind.kind == "Binding"
}

/// Writes a subresource that is not an update of its object; `None` if it is one.
pub async fn write(
    registry: &Registry,
    issuer: Option<&Issuer>,
    caller: Caller<'_>,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Option<Answer>> {
    let path = caller.path();
    let kind = path.of();
    let name = path.subresource.as_deref();
    // A custom resource may have the name of a built-in kind.
    let called = (!kind.is_custom()).then_some(kind.kind.as_str());
    let answer = match (called.unwrap_or(""), name, path.verb) {
        ("Binding", None, Verb::Create) | ("Pod", Some("binding"), Verb::Create) => {
            pod::bind(registry, caller, query, accepted, sent).await?
        }
        ("Pod", Some("eviction"), Verb::Create) => {
            eviction::evict(registry, caller, query, accepted, sent).await?
        }
        ("ServiceAccount", Some("token"), Verb::Create) => {
            token::request(registry, issuer, caller, query, accepted, sent).await?
        }
        (_, Some("scale"), _) => scale::update(registry, caller, query, accepted, sent).await?,
        (_, Some(name), _) => {
            reject_data_plane(name)?;
            return Ok(None);
        }
        (_, None, _) => return Ok(None),
    };
    Ok(Some(answer))
}

/// Patches the scale of an object.
pub async fn patch_scale(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    accepted: Accepted,
    format: PatchFormat,
    body: &Bytes,
) -> Result<Answer> {
    scale::patch(registry, caller, query, accepted, format, body).await
}

/// Rejects the subresources of running pods: the server has no kubelets.
fn reject_data_plane(name: &str) -> Result<()> {
    match name {
        "attach" | "exec" | "log" | "portforward" | "proxy" => {
            Err(StatusError::not_implemented(name))
        }
        _ => Ok(()),
    }
}
