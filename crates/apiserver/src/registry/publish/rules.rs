//! The restrictions on changes of published definitions.

use insula_core::Revision;
use insula_kinds::{FieldError, Kind, Object, Value, kinds};
use insula_store::{Outcome, Transaction};

use super::find;
use super::holders::{Count, Holders, held};
use crate::registry::encoding::encoded;
use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};
use insula_cache::{PUBLISHED, is_published};
use insula_cache::{Stored, without_revision};

/// The attempted operation on an object that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// An update or patch.
    Change,
    /// A deletion.
    Delete,
}

/// The reserved groups of the server, including their subdomains.
const OURS: [&str; 3] = ["multi-tenancy.k8s.io", "insula.dev", "insula.io"];

/// Returns the error of an operation on an object that is not stored: it does not exist, or
/// it is a published one.
pub fn absent(registry: &Registry, kind: &Kind, address: &Address, act: Act) -> StatusError {
    let name = &address.name;
    if find(registry, address).is_none() {
        return StatusError::not_found(kind, name);
    }
    let why = match act {
        Act::Change => {
            "it is a system CRD, you cannot overwrite it; create a definition of this name to \
             have one of your own, which is then served in its place"
        }
        Act::Delete => "it is a system CRD, it can only be deleted by a cluster admin",
    };
    StatusError::not_allowed(kind, name, why)
}

/// Checks whether a new definition may be created.
pub async fn admit(registry: &Registry, address: &Address, object: &Object) -> Result<()> {
    if !address.kind.is(insula_cache::definitions()) {
        return Ok(());
    }
    check_group(address, object)?;
    if address.space.is_system() {
        return Ok(());
    }
    registry.catch_up().await?;
    match held(registry, &address.space, &address.name) {
        0 => Ok(()),
        // Objects that remain of a former definition of the tenant do no harm.
        _ if find(registry, address).is_none() => Ok(()),
        count => {
            let why = format!(
                "this tenant has {} of the system CRD of this name: delete these first, then \
                 create your own",
                Count(count, "object")
            );
            Err(StatusError::not_allowed(&address.kind, &address.name, &why))
        }
    }
}

/// Fails for groups that the server serves or reserves.
fn check_group(address: &Address, object: &Object) -> Result<()> {
    let spec = object.get("spec");
    let group = spec
        .and_then(|spec| spec.get("group"))
        .and_then(Value::as_str);
    // A group without a dot is rejected by the validation of definitions.
    let group = group.filter(|group| group.contains('.')).unwrap_or("");
    let below = |domain: &str| {
        let rest = group.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let served = !group.is_empty() && kinds().iter().any(|(_, kind)| kind.group == group);
    if served || OURS.into_iter().any(below) {
        let why = format!("the group {group} is the server's own: define kinds in another");
        return Err(StatusError::not_allowed(&address.kind, &address.name, &why));
    }
    Ok(())
}

/// Whether an update withdraws a published definition.
pub fn is_withdrawal(address: &Address, old: &Object, new: &Object) -> bool {
    address.space.is_system()
        && address.kind.is(insula_cache::definitions())
        && annotation(old) == Some("true")
        && annotation(new) != Some("true")
}

/// Fails if tenants have objects of a definition that is to be withdrawn.
pub async fn check_withdrawal(registry: &Registry, address: &Address) -> Result<()> {
    registry.catch_up().await?;
    match Holders::of(registry, &address.name) {
        holders if holders.is_empty() => Ok(()),
        holders => Err(in_use(address, &holders)),
    }
}

/// Checks again after the withdrawal at `revision`. The cache then has every object that was
/// created before, and none is created afterwards, because creations check the definition. If
/// there are objects, the definition is restored.
pub async fn confirm_withdrawal(
    registry: &Registry,
    address: &Address,
    before: &Stored,
    revision: Revision,
) -> Result<()> {
    registry.cache().await_applied(revision).await;
    let holders = Holders::of(registry, &address.name);
    if holders.is_empty() {
        return Ok(());
    }
    let restored = without_revision(&before.body());
    let transaction = Transaction::update(registry.key(address), revision, restored);
    if let Outcome::Conflict(_) = registry.commit(transaction).await? {
        publish_again(registry, address).await?;
    }
    Err(in_use(address, &holders))
}

/// Publishes a definition again that was changed meanwhile, and keeps the changes.
async fn publish_again(registry: &Registry, address: &Address) -> Result<()> {
    while let Some(current) = registry.fresh(address).await? {
        if is_published(&current) {
            break;
        }
        let value = encoded(address.of(), &with_annotation(&current));
        let key = registry.key(address);
        let transaction = Transaction::update(key, current.revision, value);
        if let Outcome::Committed(_) | Outcome::Unchanged(_) = registry.commit(transaction).await? {
            break;
        }
    }
    Ok(())
}

fn with_annotation(definition: &Stored) -> Object {
    let mut tree = definition.tree();
    if let Some(Value::Object(metadata)) = tree.get_mut("metadata") {
        metadata.remove("resourceVersion");
        let annotations = metadata.entry("annotations").or_insert(Value::Null);
        if !annotations.is_object() {
            *annotations = Value::Object(Object::new());
        }
        annotations[PUBLISHED] = "true".into();
    }
    tree
}

fn in_use(address: &Address, holders: &Holders) -> StatusError {
    let field = format!("metadata.annotations[{PUBLISHED}]");
    let why =
        format!("{holders}: delete these first, or delete the definition, which deletes them too");
    let error = FieldError::forbidden(field, &why);
    StatusError::invalid(&address.kind, &address.name, &[error])
}

/// Returns the warning for the deletion of a published definition.
pub async fn deletion_warning(registry: &Registry, address: &Address) -> Result<Option<String>> {
    if !address.space.is_system() || !address.kind.is(insula_cache::definitions()) {
        return Ok(None);
    }
    registry.catch_up().await?;
    let holders = Holders::of(registry, &address.name);
    Ok((!holders.is_empty()).then(|| format!("{holders}: deleting it deletes these too")))
}

fn annotation(definition: &Object) -> Option<&str> {
    let annotations = definition.get("metadata")?.get("annotations")?;
    annotations.get(PUBLISHED)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_core::Space;
    use serde_json::json;

    #[test]
    fn reserved_groups_cannot_be_defined() {
        let address = crate::registry::apis::definition_address(&Space::System, "foos.x");
        let refused = |group: &str| {
            let object = json!({"spec": {"group": group}});
            let object = object.as_object().cloned().unwrap_or_default();
            check_group(&address, &object).map_err(|error| error.code)
        };
        for group in [
            "rbac.authorization.k8s.io",
            "apiextensions.k8s.io",
            "events.k8s.io",
            "multi-tenancy.k8s.io",
            "x.multi-tenancy.k8s.io",
            "insula.io",
            "a.b.insula.io",
            "x.insula.dev",
        ] {
            assert_eq!(refused(group), Err(403), "{group}");
        }
        // Groups without a dot are rejected by validation.
        for group in [
            "ex.io",
            "peninsula.io",
            "gateway.networking.k8s.io",
            "apps",
            "",
            "k8s.io",
        ] {
            assert_eq!(refused(group), Ok(()), "{group}");
        }
    }
}
