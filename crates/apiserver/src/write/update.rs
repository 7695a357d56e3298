//! An object in whole.

use insula_access::rbac::ResourceAttributes;
use insula_kinds::Object;

use super::{Done, Modified, Modify, Owner, create_object, metadata, modify, rules};
use crate::codec::input::{self, Sent};
use crate::pipeline::authorize::Caller;
use crate::registry::publish::{Act, absent};
use crate::registry::{Address, Registry};
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};

/// Replaces the object that the path names, or what the subresource is of it.
pub async fn update(
    registry: &Registry,
    granted: Caller<'_>,
    query: &Query,
    sent: &Sent,
) -> Result<Done> {
    let options = WriteOptions::read(query, "UpdateOptions")?;
    let path = granted.path();
    let kind = &path.kind;
    let mut written = rules::read(granted, sent, kind, options.validation).await?;
    let address = granted.address()?;
    check_names(&written.object, &address)?;
    metadata::place(&mut written.object, kind, &address)?;
    let request = Modify {
        kind,
        address: &address,
        subresource: path.subresource.as_deref(),
        whole: true,
        dry_run: options.dry_run,
        by: Some(granted),
        owner: Owner::Caller,
    };
    let make = |_: &Object| {
        let (object, warnings) = (written.object.clone(), written.warnings.clone());
        Ok(Modified { object, warnings })
    };
    loop {
        if let Some(done) = modify(registry, request, make).await? {
            return Ok(done);
        }
        if !kind.create_on_update || path.subresource.is_some() {
            return Err(absent(registry, kind, &address, Act::Change));
        }
        may_create(registry, granted, &address).await?;
        let created = create_instead(registry, granted, &address, &written, options.dry_run).await;
        match created {
            // Somebody else was faster: then it is theirs that is replaced.
            Err(refusal) if refusal.is_taken() && !options.dry_run => {}
            done => return done,
        }
    }
}

/// Who replaces what is not there creates it, and needs the right to.
pub(super) async fn may_create(
    registry: &Registry,
    granted: Caller<'_>,
    address: &Address,
) -> Result<()> {
    let kind = granted.path().of();
    let act = ResourceAttributes {
        verb: "create",
        group: &kind.group,
        resource: &kind.resource,
        subresource: None,
        namespace: address.namespace.as_deref(),
        name: Some(&address.name),
    };
    granted.require(registry, act).await
}

/// What is not there comes about, for the kinds that are written so.
async fn create_instead(
    registry: &Registry,
    granted: Caller<'_>,
    address: &Address,
    written: &input::Written,
    dry_run: bool,
) -> Result<Done> {
    let path = granted.path();
    if let Some(uid) = metadata::text(&written.object, "uid") {
        let key = registry.key(address);
        return Err(StatusError::other_uid(
            path.of(),
            &address.name,
            &key,
            uid,
            "",
        ));
    }
    let mut object = written.object.clone();
    metadata::of(&mut object).remove("resourceVersion");
    let namespace = address.namespace.as_deref();
    let mut done = create_object(
        registry,
        &path.kind,
        &address.space,
        namespace,
        object,
        Some(granted),
        dry_run,
    )
    .await?;
    done.warnings.splice(0..0, written.warnings.clone());
    Ok(done)
}

/// The object has no name.
pub(super) fn unnamed(name: &str) -> StatusError {
    StatusError::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// The object must be the one that the path names.
fn check_names(object: &Object, address: &Address) -> Result<()> {
    let name = &address.name;
    match metadata::text(object, "name") {
        None => Err(unnamed(name)),
        Some(given) if given != name => Err(StatusError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
        Some(_) => Ok(()),
    }
}
