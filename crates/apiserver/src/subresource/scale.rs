//! How many of them there are to be.

mod owners;

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use insula_custom::scale::{ScaleError, ScalePaths};
use insula_kinds::{FieldError, Object, TypeId, Value, decode, prepare, types};
use owners::Owners;

use crate::answer::Answer;
use crate::authorize::Granted;
use crate::cache::Stored;
use crate::form;
use crate::intake::{self, Expected, Sent};
use crate::negotiate::Accepted;
use crate::query::{Query, WriteOptions};
use crate::request::App;
use crate::served::Served;
use crate::status::{Refusal, Result};
use crate::view::View;
use crate::write::{self, Modified, Modify, Owner, PatchFormat, modify, patched};

/// The scale of the object that the path names.
pub async fn get(app: &App, granted: &Granted, accepted: Accepted) -> Result<Answer> {
    let address = granted.address()?;
    let kind = &granted.path().kind;
    let found = app.registry.fresh(&address).await?;
    let object = found.ok_or_else(|| Refusal::not_found(kind, &address.name))?;
    show(app, granted, kind, &object, accepted, Vec::new()).await
}

/// Replaces it.
pub async fn update(
    app: &App,
    granted: &Granted,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Answer> {
    let options = WriteOptions::read(query, "UpdateOptions")?;
    let written = intake::read(sent, expected(), options.validation)?;
    check_name(granted, &written.object)?;
    let warnings = written.warnings;
    let owners = Owners::new(granted, &granted.path().kind);
    change(app, granted, options.dry_run, accepted, &owners, |scale| {
        let mut object = written.object.clone();
        owners.note(scale, &mut object);
        Ok(Modified {
            object,
            warnings: warnings.clone(),
        })
    })
    .await
}

/// Patches it.
pub async fn patch(
    app: &App,
    granted: &Granted,
    query: &Query,
    accepted: Accepted,
    format: PatchFormat,
    body: &Bytes,
) -> Result<Answer> {
    let owners = Owners::new(granted, &granted.path().kind);
    if format == PatchFormat::Apply {
        return apply(app, granted, query, accepted, &owners, body).await;
    }
    let options = write::read_options(query)?;
    change(app, granted, options.dry_run, accepted, &owners, |scale| {
        let mut modified = patched(scale_type(), scale, format, body, options.validation)?;
        check_name(granted, &modified.object)?;
        owners.note(scale, &mut modified.object);
        Ok(modified)
    })
    .await
}

/// Applies what somebody wants of it.
async fn apply(
    app: &App,
    granted: &Granted,
    query: &Query,
    accepted: Accepted,
    owners: &Owners,
    body: &Bytes,
) -> Result<Answer> {
    let config = write::Config::read(query, body)?;
    change(app, granted, config.dry_run, accepted, owners, |scale| {
        let applied = owners.apply(scale, &config.object, config.force)?;
        let decoded = decode::value(scale_type(), Value::Object(applied));
        let decoded = decoded.map_err(|why| Refusal::plain_error(why.to_string()))?;
        check_name(granted, &decoded.object)?;
        Ok(Modified {
            object: decoded.object,
            warnings: config.warnings.clone(),
        })
    })
    .await
}

/// A scale has the name of its object.
fn check_name(granted: &Granted, scale: &Object) -> Result<()> {
    let name = granted.path().name.as_deref().unwrap_or("");
    let why = match text(scale, "name") {
        Some(given) if given == name => return Ok(()),
        Some(given) => {
            format!("the name of the object ({given}) does not match the name on the URL ({name})")
        }
        None => format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ),
    };
    Err(Refusal::bad_request(why))
}

async fn change(
    app: &App,
    granted: &Granted,
    dry_run: bool,
    accepted: Accepted,
    owners: &Owners,
    mut make: impl FnMut(&Object) -> Result<Modified>,
) -> Result<Answer> {
    let address = granted.address()?;
    let kind = &granted.path().kind;
    let request = Modify {
        kind,
        address: &address,
        subresource: Some("scale"),
        whole: false,
        dry_run,
        by: Some(granted),
        owner: Owner::Named,
    };
    let done = modify(&app.registry, request, |current| {
        let mut scale = current_scale(kind, current)?;
        owners.show(current, &mut scale);
        let Modified {
            object: wanted,
            warnings,
        } = make(&scale)?;
        let mut object = current.clone();
        if let (Some(asked), Some(is)) = (text(&wanted, "uid"), text(&scale, "uid"))
            && asked != is
        {
            let key = app.registry.key(&address);
            return Err(Refusal::other_uid(kind, &address.name, &key, asked, is));
        }
        let version = "resourceVersion";
        if let (Some(asked), Some(is)) = (text(&wanted, version), text(&scale, version))
            && asked != is
            && asked != "0"
        {
            return Err(Refusal::modified(kind, &address.name));
        }
        put_scale(kind, &mut object, &wanted, &address.name)?;
        owners.put(&wanted, &mut object);
        Ok(Modified { object, warnings })
    })
    .await?;
    let done = done.ok_or_else(|| Refusal::not_found(kind, &address.name))?;
    show(app, granted, kind, &done.object, accepted, done.warnings).await
}

fn replicas(scale: &Object, name: &str) -> Result<i64> {
    let replicas = scale.get("spec").and_then(|spec| spec.get("replicas"));
    let replicas = replicas.and_then(Value::as_i64).unwrap_or(0);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", &replicas.into(), why);
        return Err(Refusal::invalid_named(
            "Scale",
            "autoscaling",
            name,
            &[error],
        ));
    }
    Ok(replicas)
}

/// Where a kind that users define keeps it.
fn paths(kind: &Served) -> Option<&ScalePaths> {
    kind.custom()?.version().scale.as_ref()
}

/// Makes something as large as the scale says.
pub fn put_scale(kind: &Served, object: &mut Object, scale: &Object, name: &str) -> Result<()> {
    match paths(kind) {
        // It is judged with the object that it is put into.
        Some(paths) => paths.put(object, scale).map_err(refuse)?,
        None => {
            let replicas = replicas(scale, name)?;
            prepare::apply_scale(kind, object, replicas);
        }
    }
    Ok(())
}

/// The scale that a change begins with.
pub fn current_scale(kind: &Served, object: &Object) -> Result<Object> {
    match paths(kind) {
        Some(paths) => paths.current(object).map_err(refuse),
        None => prepare::scale_of(kind, object).ok_or_else(Refusal::no_such_resource),
    }
}

fn refuse(error: ScaleError) -> Refusal {
    match error {
        ScaleError::Missing { .. } => Refusal::internal(error),
        ScaleError::Misfit(why) => Refusal::plain_error(why),
        ScaleError::Empty { .. } => Refusal::bad_request(error.to_string()),
    }
}

async fn show(
    app: &App,
    granted: &Granted,
    kind: &Served,
    object: &Arc<Stored>,
    accepted: Accepted,
    warnings: Vec<String>,
) -> Result<Answer> {
    let scale = match (paths(kind), kind.custom()) {
        (Some(paths), Some(custom)) => {
            form::prepare(
                &app.registry,
                Some(granted.errand()),
                kind,
                std::iter::once(object),
            )
            .await?;
            paths.get(&custom.show(object).tree()).map_err(refuse)?
        }
        _ => prepare::scale_of(kind, &object.tree()).ok_or_else(Refusal::no_such_resource)?,
    };
    // A row carries the metadata of its scale, whatever else was asked for.
    let view = View::new(kind, accepted, &Query::default())?;
    let body = view.scale(scale_type(), &scale)?;
    Ok(Answer::new(StatusCode::OK, body)
        .of(accepted)
        .warned(warnings))
}

fn expected() -> Expected<'static> {
    Expected {
        group: "autoscaling",
        api_version: "autoscaling/v1",
        kind: "Scale",
        of: scale_type(),
    }
}

fn scale_type() -> TypeId {
    types()
        .find("api.autoscaling.v1.Scale")
        .expect("it is in the table")
}

fn text<'a>(object: &'a Object, member: &str) -> Option<&'a str> {
    let text = object.get("metadata")?.get(member)?.as_str()?;
    (!text.is_empty()).then_some(text)
}
