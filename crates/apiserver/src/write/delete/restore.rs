//! The deletion of built-in objects that come back: another one takes their place, as
//! kube-apiserver creates a deleted Service `kubernetes` again. It takes it at once, also if the
//! deleted one has finalizers: a watcher that saw the object go would not see it come back.

use std::sync::Arc;

use insula_kinds::{Kind, time};
use insula_store::{Outcome, Transaction};

use super::{DeleteOptions, Deleted, admit, check_preconditions, is_terminating_space};
use crate::registry::{Address, Registry};
use crate::status::Result;
use crate::write::admission::lifecycle::Lifecycle;
use crate::write::admission::webhooks::Attributes;

/// Puts a new object in the place of a built-in one. Returns `None` if its space is terminating, so
/// that the object is deleted like any other.
pub(super) async fn replace(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    attributes: Option<&Attributes<'_>>,
) -> Result<Option<Deleted>> {
    if is_terminating_space(registry, &address.space).await? {
        return Ok(None);
    }
    while let Some(current) = registry.fresh(address).await? {
        check_preconditions(kind, address, options, &current)?;
        if let Some(attributes) = attributes.filter(|attributes| attributes.has_configurations()) {
            admit(registry, attributes, &current).await?;
        }
        let deleted = Deleted {
            gone: true,
            ..Deleted::marked(Arc::clone(&current))
        };
        let Some(value) = registry.built_in().restored(address, &time::now()) else {
            return Ok(None);
        };
        if options.dry_run {
            return Ok(Some(deleted));
        }
        let key = registry.key(address);
        let transaction = Transaction::new().check(key.clone(), current.expected());
        // A built-in object may be stored by this, so its space must still allow creates.
        let lifecycle = Lifecycle::check(registry, &address.kind, address).await?;
        let transaction = lifecycle.guard(registry, transaction.put(key, value));
        if let Outcome::Conflict(_) = registry.commit(transaction).await? {
            continue;
        }
        return Ok(Some(deleted));
    }
    Ok(None)
}
