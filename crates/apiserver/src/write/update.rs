//! Updates: replacing an object.

use insula_access::rbac::ResourceAttributes;
use insula_kinds::Object;

use super::{Done, ManagedFields, Modified, Modify, create_object, metadata, modify, strategy};
use crate::codec::input::{self, Sent};
use crate::pipeline::authorize::Caller;
use crate::registry::publish::{Act, absent};
use crate::registry::{Address, Registry};
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};

/// Replaces the object that the path names, or its subresource.
pub async fn update(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    sent: &Sent,
) -> Result<Done> {
    let options = WriteOptions::read(query, "UpdateOptions")?;
    let path = caller.path();
    let kind = &path.kind;
    let mut written = strategy::read_body(caller, sent, kind, options.validation).await?;
    let address = caller.address()?;
    check_names(&written.object, &address)?;
    metadata::set_location(&mut written.object, &address, Some(caller))?;
    let leaves_managed_fields = !metadata::of(&mut written.object).contains_key("managedFields");
    let warnings = written.warnings;
    let mut first = Some(written.object);
    // Attempts after the first are so rare that the body is decoded again for them.
    let mut object = || -> Result<Object> {
        match first.take() {
            Some(object) => Ok(object),
            None => {
                let mut object = strategy::read_body_again(sent, kind, options.validation)?.object;
                metadata::set_location(&mut object, &address, Some(caller))?;
                Ok(object)
            }
        }
    };
    let request = Modify {
        kind,
        address: &address,
        subresource: path.subresource.as_deref(),
        full_update: true,
        dry_run: options.dry_run,
        caller: Some(caller),
        managed_fields: ManagedFields::Update,
        leaves_managed_fields,
    };
    loop {
        let change = |_: &Object| {
            let (object, warnings) = (object()?, warnings.clone());
            Ok(Modified { object, warnings })
        };
        if let Some(done) = modify(registry, request, change).await? {
            return Ok(done);
        }
        if !kind.create_on_update || path.subresource.is_some() {
            return Err(absent(registry, kind, &address, Act::Change));
        }
        check_may_create(registry, caller, &address).await?;
        let new = input::Written {
            object: object()?,
            warnings: warnings.clone(),
        };
        match create_on_update(registry, caller, &address, new, options.dry_run).await {
            // Another request created the object meanwhile: update that one.
            Err(error) if error.is_taken() && !options.dry_run => {}
            done => return done,
        }
    }
}

/// Checks that the caller may create the object, which an update of a missing one does.
pub(super) async fn check_may_create(
    registry: &Registry,
    caller: Caller<'_>,
    address: &Address,
) -> Result<()> {
    let kind = caller.path().of();
    let attributes = ResourceAttributes {
        verb: "create",
        group: &kind.group,
        resource: &kind.resource,
        subresource: None,
        namespace: address.namespace.as_deref(),
        name: Some(&address.name),
    };
    caller.require(registry, attributes).await
}

/// Creates the missing object, for kinds that allow create on update.
async fn create_on_update(
    registry: &Registry,
    caller: Caller<'_>,
    address: &Address,
    written: input::Written,
    dry_run: bool,
) -> Result<Done> {
    let path = caller.path();
    let input::Written {
        mut object,
        warnings,
    } = written;
    if let Some(uid) = metadata::text(&object, "uid") {
        let key = registry.key(address);
        return Err(StatusError::other_uid(
            path.of(),
            &address.name,
            &key,
            uid,
            "",
        ));
    }
    metadata::of(&mut object).remove("resourceVersion");
    let namespace = address.namespace.as_deref();
    let mut done = create_object(
        registry,
        &path.kind,
        &address.space,
        namespace,
        object,
        Some(caller),
        dry_run,
    )
    .await?;
    done.warnings.splice(0..0, warnings);
    Ok(done)
}

/// Returns the error for an object without a name.
pub(super) fn missing_name(name: &str) -> StatusError {
    StatusError::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Checks that the object has the name in the path.
fn check_names(object: &Object, address: &Address) -> Result<()> {
    let name = &address.name;
    match metadata::text(object, "name") {
        None => Err(missing_name(name)),
        Some(given) if given != name => Err(StatusError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
        Some(_) => Ok(()),
    }
}
