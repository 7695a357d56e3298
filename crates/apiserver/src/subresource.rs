//! What is served below objects: scale, binding, eviction, tokens.
//!
//! `status`, `finalize`, `approval` and others of the same shape are updates like any
//! other, with a table that says what they leave alone.

mod eviction;
mod pod;
mod scale;

use bytes::Bytes;
use insula_core::Verb;

pub use scale::{current_scale, put_scale};

use crate::answer::Answer;
use crate::authorize::Granted;
use crate::intake::Sent;
use crate::negotiate::Accepted;
use crate::query::Query;
use crate::read;
use crate::request::App;
use crate::service_account;
use crate::status::{Refusal, Result};
use crate::view::View;
use crate::write::PatchFormat;

/// Reads a subresource.
pub async fn get(
    app: &App,
    granted: &Granted,
    name: &str,
    query: &Query,
    accepted: Accepted,
) -> Result<Answer> {
    if name == "scale" {
        return scale::get(app, granted, accepted).await;
    }
    refuse_the_data_plane(name)?;
    let view = View::new(&granted.path().kind, accepted, query)?;
    let body = read::get(&app.registry, granted, query, &view).await?;
    Ok(Answer::new(http::StatusCode::OK, body).of(accepted))
}

/// Writes a subresource that is not an update of its object; `None` if it is one.
pub async fn write(
    app: &App,
    granted: &Granted,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Option<Answer>> {
    let path = granted.path();
    let kind = path.of();
    let name = path.subresource.as_deref();
    // Users may call a kind of theirs as they like.
    let called = (!kind.is_custom()).then_some(kind.kind.as_str());
    let answer = match (called.unwrap_or(""), name, path.verb) {
        ("Binding", None, Verb::Create) | ("Pod", Some("binding"), Verb::Create) => {
            pod::bind(app, granted, query, accepted, sent).await?
        }
        ("Pod", Some("eviction"), Verb::Create) => {
            eviction::evict(app, granted, query, accepted, sent).await?
        }
        ("ServiceAccount", Some("token"), Verb::Create) => {
            service_account::request(app, granted, query, accepted, sent).await?
        }
        (_, Some("scale"), _) => scale::update(app, granted, query, accepted, sent).await?,
        (_, Some(name), _) => {
            refuse_the_data_plane(name)?;
            return Ok(None);
        }
        (_, None, _) => return Ok(None),
    };
    Ok(Some(answer))
}

/// Patches the scale of an object.
pub async fn patch_scale(
    app: &App,
    granted: &Granted,
    query: &Query,
    accepted: Accepted,
    format: PatchFormat,
    body: &Bytes,
) -> Result<Answer> {
    scale::patch(app, granted, query, accepted, format, body).await
}

/// Nothing runs pods here.
fn refuse_the_data_plane(name: &str) -> Result<()> {
    match name {
        "attach" | "exec" | "log" | "portforward" | "proxy" => Err(Refusal::not_implemented(name)),
        _ => Ok(()),
    }
}
