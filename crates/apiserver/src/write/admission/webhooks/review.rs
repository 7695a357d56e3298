//! What webhooks are sent.

use insula_admission::review::{Mode, Review};
use insula_admission::webhook::Failure;
use insula_admission::{Request, Target, VersionedObjects};
use insula_cache::{TENANT_FIELDS, TenantFields};
use insula_kinds::Object;
use uuid::Uuid;

use super::{Attributes, Hook};
use crate::write::metadata;

/// Returns the review of a request that a webhook is sent.
pub(super) fn review(
    attributes: &Attributes<'_>,
    hook: &Hook,
    mode: Mode,
    request: &Request<'_>,
    target: &Target,
    objects: VersionedObjects<'_>,
) -> Result<Review, Failure> {
    let webhook = &hook.webhook;
    webhook.check_dry_run(request)?;
    let uid = Uuid::new_v4().to_string();
    // The system's webhooks need to know whose object it is.
    let is_full = hook.owner.is_system()
        || attributes.registry.tenant_fields_of(&hook.owner) == TenantFields::Full;
    if is_full {
        return Review::new(webhook, mode, request, target, objects, uid);
    }
    let [object, old] = [objects.object, objects.old].map(|of| of.map(without_tenant_fields));
    let objects = VersionedObjects {
        object: object.as_ref(),
        old: old.as_ref(),
    };
    Review::new(webhook, mode, request, target, objects, uid)
}

/// Returns the object without the fields that name its tenant.
fn without_tenant_fields(object: &Object) -> Object {
    let mut object = object.clone();
    let metadata = metadata::of(&mut object);
    for field in TENANT_FIELDS {
        metadata.remove(field);
    }
    object
}
