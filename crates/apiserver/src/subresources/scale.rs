//! The `scale` subresource.

mod ownership;

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use insula_kinds::{Object, TypeId, Value, decode, prepare, types};
use ownership::ScaleOwnership;

use crate::codec::answer::Answer;
use crate::codec::input::{self, Expected, Sent};
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::resource::Resource;
use crate::registry::versions;
use crate::request::negotiate::Accepted;
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};
use crate::write::{self, ManagedFields, Modified, Modify, PatchFormat, apply_patch, modify};
use insula_cache::Stored;

/// Returns the scale of the object that the path names.
pub async fn get(registry: &Registry, caller: Caller<'_>, accepted: Accepted) -> Result<Answer> {
    let address = caller.address()?;
    let kind = &caller.path().kind;
    let found = registry.fresh(&address).await?;
    let object = found.ok_or_else(|| StatusError::not_found(kind, &address.name))?;
    respond(registry, caller, kind, &object, accepted, Vec::new()).await
}

/// Replaces the scale.
pub async fn update(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Answer> {
    let options = WriteOptions::read(query, "UpdateOptions")?;
    let written = input::read(sent, expected(), options.validation)?;
    check_name(caller, &written.object)?;
    let warnings = written.warnings;
    let ownership = ScaleOwnership::new(caller, &caller.path().kind);
    modify_scale(
        registry,
        caller,
        options.dry_run,
        accepted,
        &ownership,
        |scale| {
            let mut object = written.object.clone();
            ownership.record(scale, &mut object);
            Ok(Modified {
                object,
                warnings: warnings.clone(),
            })
        },
    )
    .await
}

/// Patches the scale.
pub async fn patch(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    accepted: Accepted,
    format: PatchFormat,
    body: &Bytes,
) -> Result<Answer> {
    let kind = &caller.path().kind;
    if kind.is_custom() && format == PatchFormat::Strategic {
        return Err(StatusError::unsupported_custom_patch());
    }
    let ownership = ScaleOwnership::new(caller, kind);
    if format.is_apply() {
        let config = write::Config::read(query, format, body)?;
        return apply(registry, caller, accepted, &ownership, config).await;
    }
    let options = write::patch_options(query)?;
    modify_scale(
        registry,
        caller,
        options.dry_run,
        accepted,
        &ownership,
        |scale| {
            let mut modified = apply_patch(scale_type(), scale, format, body, options.validation)?;
            check_name(caller, &modified.object)?;
            ownership.record(scale, &mut modified.object);
            Ok(modified)
        },
    )
    .await
}

/// Applies a configuration to the scale.
async fn apply(
    registry: &Registry,
    caller: Caller<'_>,
    accepted: Accepted,
    ownership: &ScaleOwnership,
    config: write::Config,
) -> Result<Answer> {
    modify_scale(
        registry,
        caller,
        config.dry_run,
        accepted,
        ownership,
        |scale| {
            let applied = ownership.apply(scale, &config.object, config.force)?;
            let decoded = decode::value(scale_type(), Value::Object(applied));
            let decoded = decoded.map_err(|why| StatusError::plain_error(why.to_string()))?;
            check_name(caller, &decoded.object)?;
            Ok(Modified {
                object: decoded.object,
                warnings: config.warnings.clone(),
            })
        },
    )
    .await
}

/// Checks that the scale has the name of its object.
fn check_name(caller: Caller<'_>, scale: &Object) -> Result<()> {
    let name = caller.path().name.as_deref().unwrap_or("");
    let why = match text(scale, "name") {
        Some(given) if given == name => return Ok(()),
        Some(given) => {
            format!("the name of the object ({given}) does not match the name on the URL ({name})")
        }
        None => format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ),
    };
    Err(StatusError::bad_request(why))
}

async fn modify_scale(
    registry: &Registry,
    caller: Caller<'_>,
    dry_run: bool,
    accepted: Accepted,
    ownership: &ScaleOwnership,
    mut change: impl FnMut(&Object) -> Result<Modified>,
) -> Result<Answer> {
    let address = caller.address()?;
    let kind = &caller.path().kind;
    let request = Modify {
        kind,
        address: &address,
        subresource: Some("scale"),
        full_update: false,
        dry_run,
        caller: Some(caller),
        managed_fields: ManagedFields::Preset,
        leaves_managed_fields: false,
    };
    let done = modify(registry, request, |current| {
        let mut scale = write::scale::current(kind, current)?;
        ownership.copy_to_scale(current, &mut scale);
        let Modified {
            object: wanted,
            warnings,
        } = change(&scale)?;
        let mut object = current.clone();
        if let (Some(asked), Some(is)) = (text(&wanted, "uid"), text(&scale, "uid"))
            && asked != is
        {
            let key = registry.key(&address);
            return Err(StatusError::other_uid(kind, &address.name, &key, asked, is));
        }
        let version = "resourceVersion";
        if let (Some(asked), Some(is)) = (text(&wanted, version), text(&scale, version))
            && asked != is
            && asked != "0"
        {
            return Err(StatusError::modified(kind, &address.name));
        }
        write::scale::set(kind, &mut object, &wanted, &address.name)?;
        ownership.copy_to_object(&wanted, &mut object);
        Ok(Modified { object, warnings })
    })
    .await?;
    let done = done.ok_or_else(|| StatusError::not_found(kind, &address.name))?;
    respond(
        registry,
        caller,
        kind,
        &done.object,
        accepted,
        done.warnings,
    )
    .await
}

async fn respond(
    registry: &Registry,
    caller: Caller<'_>,
    kind: &Resource,
    object: &Arc<Stored>,
    accepted: Accepted,
    warnings: Vec<String>,
) -> Result<Answer> {
    let scale = match (write::scale::paths(kind), kind.custom()) {
        (Some(paths), Some(custom)) => {
            versions::prepare(
                registry,
                Some(caller.context),
                kind,
                std::iter::once(object),
            )
            .await?;
            paths
                .get(&custom.show(object).tree())
                .map_err(write::scale::scale_error)?
        }
        _ => prepare::scale_of(kind, &object.tree()).ok_or_else(StatusError::no_such_resource)?,
    };
    // A table row carries the metadata of the scale, whatever `includeObject` says.
    let fields = registry.tenant_fields_in(caller.spaces());
    let view = View::new(kind, accepted, &Query::default(), fields)?;
    let body = view.scale(scale_type(), scale)?;
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
