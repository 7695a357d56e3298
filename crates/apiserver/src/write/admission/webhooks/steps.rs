//! The steps of the admission chain that call webhooks and evaluate policies.

use insula_kinds::Object;

use super::{Attributes, BodyKind, mutate, validate};
use crate::status::Result;
use crate::write::admission::Admission;
use crate::write::admission::lifecycle::Lifecycle;
use crate::write::{metadata, ownership, scale};

/// Whether webhooks or policies may concern the write.
pub fn are_configured(admission: &Admission<'_>) -> bool {
    attributes_of(admission).is_some()
}

/// The mutating step of the admission chain.
pub async fn mutate_object(admission: &mut Admission<'_>) -> Result<()> {
    let Some(attributes) = attributes_of(admission) else {
        return Ok(());
    };
    match admission.old {
        None => mutate_new(&attributes, admission.object).await,
        Some(old) => mutate_changed(&attributes, old, admission.object).await,
    }
}

/// The validating step of the admission chain.
pub async fn validate_object(admission: &mut Admission<'_>) -> Result<()> {
    let Some(attributes) = attributes_of(admission) else {
        return Ok(());
    };
    match (attributes.body, admission.old) {
        // Of an object that is scaled, webhooks see the scale.
        (Some(BodyKind::SCALE), Some(old)) => {
            let before = scale::current(attributes.kind, old)?;
            let scale = scale::current(attributes.kind, admission.object)?;
            validate(&attributes, Some(&scale), Some(&before)).await
        }
        (_, old) => validate(&attributes, Some(admission.object), old).await,
    }
}

/// The request as webhooks see it; `None` if none is configured, or if the request was admitted
/// before as a binding.
fn attributes_of<'a>(admission: &Admission<'a>) -> Option<Attributes<'a>> {
    let subresource = admission.subresource;
    if subresource == Some("binding") {
        return None;
    }
    let mut attributes = Attributes::new(
        admission.registry,
        admission.caller?,
        admission.operation,
        admission.resource,
        admission.address,
    );
    attributes.subresource = subresource;
    attributes.dry_run = admission.dry_run;
    attributes.body = (subresource == Some("scale")).then_some(BodyKind::SCALE);
    attributes.has_configurations().then_some(attributes)
}

/// Calls the mutating webhooks for a new object, which may have no name yet.
async fn mutate_new(attributes: &Attributes<'_>, object: &mut Object) -> Result<()> {
    // Report a missing namespace before any webhook sees the object.
    Lifecycle::check(attributes.registry, attributes.kind, attributes.address).await?;
    metadata::set_location(object, attributes.address, Some(attributes.caller))?;
    let own = metadata::of(object).clone();
    mutate(attributes, Some(object), None).await?;
    let metadata = metadata::of(object);
    for member in metadata::SERVER_OWNED_FIELDS {
        metadata.remove(*member);
    }
    for member in ["uid", "creationTimestamp"] {
        metadata.extend(own.get(member).map(|is| (member.to_owned(), is.clone())));
    }
    // A webhook may have changed the name that it contains.
    metadata.remove("selfLink");
    let owned = own.get("managedFields").cloned();
    attributes
        .caller
        .context
        .warn(ownership::restore_if_invalid(owned, object));
    Ok(())
}

/// Calls the mutating webhooks for a change. Of an object that is scaled they see the scale.
async fn mutate_changed(
    attributes: &Attributes<'_>,
    old: &Object,
    object: &mut Object,
) -> Result<()> {
    let owned = metadata::of(object).get("managedFields").cloned();
    let changed = match attributes.body {
        None => mutate(attributes, Some(object), Some(old)).await?,
        Some(_) => {
            let before = scale::current(attributes.kind, old)?;
            let mut scale = scale::current(attributes.kind, object)?;
            let changed = mutate(attributes, Some(&mut scale), Some(&before)).await?;
            if changed {
                scale::set(attributes.kind, object, &scale, attributes.name)?;
            }
            changed
        }
    };
    if changed {
        metadata::restore(object, attributes.address, old, Some(attributes.caller))?;
        attributes
            .caller
            .context
            .warn(ownership::restore_if_invalid(owned, object));
    }
    Ok(())
}
