//! The ids and values that a body needs from other objects.

use std::collections::BTreeSet;

use insula_identity::credential::Hidden;
use insula_operator::key::{GroupKind, Key};
use insula_operator::provider::Dependency;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::DynamicObject;
use ring::digest;
use serde_json::Value;

use super::object::Object;
use super::ready::{Problem, Stored};
use super::served::ServedKind;
use crate::arm::ResourceId;
use crate::arm::id::{InvalidId, ResourceType};
use crate::mapping::{self, MappingError, Needs, ObjectReference, Reference, Resolved};
use crate::names::RESOURCE_ID;
use crate::table::{Behaviour, Kind, Scope};

/// The body of a request, and the state of everything that it was made from.
pub(super) struct Inputs {
    pub body: Value,
    /// Changes when the spec or another object changes. Neither values nor their hashes are in it:
    /// it is stored in an annotation.
    pub digest: String,
    /// The values of Secrets in the body, which must not show up in messages.
    pub secrets: Vec<Hidden>,
}

/// The owner of a resource.
pub(super) struct OwnerObject {
    pub id: ResourceId,
    /// The custom resource; none if the owner is named by its ARM id.
    pub object: Option<DynamicObject>,
}

/// Reads everything that the body of an object needs.
///
/// # Errors
///
/// If a request to the API server fails. The inner error is what the object lacks.
pub(super) async fn gather(object: &Object<'_>) -> Result<Result<Inputs, Problem>, kube::Error> {
    let needs = mapping::needs(object.kind, object.version, object.value());
    let (resolved, versions) = match resolve(object, needs).await? {
        Ok(resolved) => resolved,
        Err(problem) => return Ok(Err(problem)),
    };
    let body = mapping::body(object.kind, object.version, object.value(), &resolved);
    let body = match body {
        Ok(body) => body,
        Err(error) => return Ok(Err(unmapped(&error))),
    };
    let digest = digest_of(object, &resolved, &versions);
    let secrets = resolved.secrets.into_values().flatten();
    Ok(Ok(Inputs {
        body,
        digest,
        secrets: secrets.map(|(_, value)| value).collect(),
    }))
}

/// Records the dependencies of an object on everything that its body needs, without reading it.
pub(super) fn depend(object: &Object<'_>) {
    let Ok(needs) = mapping::needs(object.kind, object.version, object.value()) else {
        return;
    };
    let of = object.of;
    let namespace = of.key.namespace.as_deref();
    for reference in &needs.references {
        if let Some(kind) = served(object, reference) {
            let kind = GroupKind::of_resource(&kind.watched());
            let (space, namespace) = (of.key.space.clone(), of.key.namespace_or_empty());
            let key = Key::namespaced(kind, space, namespace, &reference.name);
            of.depend_on(Dependency::Object(key));
        }
    }
    let secrets = needs.secrets.iter().map(|one| &one.name);
    for name in secrets.chain(&needs.whole_secrets) {
        of.depend_on_object::<Secret>(namespace, name);
    }
    for one in &needs.config_maps {
        of.depend_on_object::<ConfigMap>(namespace, &one.name);
    }
}

/// Returns the name of a resource in Azure.
///
/// # Errors
///
/// If a request to the API server fails. The inner error is what the object lacks.
pub(super) async fn azure_name(
    object: &Object<'_>,
) -> Result<Result<String, Problem>, kube::Error> {
    // An object that cannot be mapped is not claimed. Only what the name needs is read.
    let needs = mapping::needs(object.kind, object.version, object.value());
    let needs = needs.and_then(|_| mapping::name_needs(object.kind, object.value()));
    let (resolved, _) = match resolve(object, needs).await? {
        Ok(resolved) => resolved,
        Err(problem) => return Ok(Err(problem)),
    };
    let name = mapping::azure_name(object.kind, object.value(), &resolved);
    Ok(name.map_err(|error| unmapped(&error)))
}

/// The versions of the Secrets and ConfigMaps that were read.
type Versions = BTreeSet<String>;

/// Reads the objects that an object refers to. Missing ones are left out.
async fn resolve(
    object: &Object<'_>,
    needs: Result<Needs, MappingError>,
) -> Result<Result<(Resolved, Versions), Problem>, kube::Error> {
    let needs = match needs {
        Ok(needs) => needs,
        Err(error) => return Ok(Err(unmapped(&error))),
    };
    let (mut resolved, mut versions) = (Resolved::default(), Versions::new());
    for reference in &needs.references {
        let found = read_resource(object, reference).await?;
        let id = found.and_then(|found| found.annotations().get(RESOURCE_ID).cloned());
        resolved.ids.extend(id.map(|id| (reference.clone(), id)));
    }
    let secrets = needs.secrets.iter().map(|one| &one.name);
    let secrets: BTreeSet<_> = secrets.chain(&needs.whole_secrets).collect();
    for name in secrets {
        if let Some(secret) = object.of.read::<Secret>(name).await? {
            versions.insert(version_of("Secret", &secret));
            let data = secret.data.unwrap_or_default().into_iter();
            let data = data.map(|(key, value)| (key, Hidden::new(value.0)));
            if let Err(error) = resolved.add_secret(&needs, name, data) {
                return Ok(Err(unmapped(&error)));
            }
        }
    }
    let config_maps: BTreeSet<_> = needs.config_maps.iter().map(|one| &one.name).collect();
    for name in config_maps {
        if let Some(map) = object.of.read::<ConfigMap>(name).await? {
            versions.insert(version_of("ConfigMap", &map));
            let data = map.data.unwrap_or_default();
            if let Err(error) = resolved.add_config_map(&needs, name, data) {
                return Ok(Err(unmapped(&error)));
            }
        }
    }
    Ok(Ok((resolved, versions)))
}

/// Reads a custom resource of the same namespace; none if it or its kind does not exist.
async fn read_resource(
    object: &Object<'_>,
    reference: &ObjectReference,
) -> Result<Option<DynamicObject>, kube::Error> {
    let Some(kind) = served(object, reference) else {
        return Ok(None);
    };
    let namespace = object.of.key.namespace.as_deref();
    object
        .of
        .read_dynamic(&kind.watched(), namespace, &reference.name)
        .await
}

fn served<'a>(object: &Object<'a>, reference: &ObjectReference) -> Option<&'a ServedKind> {
    let served = &object.of.context.provider.served;
    served.find(&reference.group, &reference.kind)
}

fn version_of<K: ResourceExt>(kind: &str, object: &K) -> String {
    let [uid, version] = [object.uid(), object.resource_version()];
    format!(
        "{kind} {} {} {}",
        object.name_any(),
        uid.unwrap_or_default(),
        version.unwrap_or_default()
    )
}

fn digest_of(object: &Object<'_>, resolved: &Resolved, versions: &Versions) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    let head = [
        object.version.api_version(),
        object.generation().to_string(),
    ];
    let ids = resolved.ids.values().cloned();
    for part in head.into_iter().chain(ids).chain(versions.iter().cloned()) {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let digest = context.finish();
    let bytes = digest.as_ref().iter().take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the problem of a field that cannot be mapped.
fn unmapped(error: &MappingError) -> Problem {
    let message = error.to_string();
    match error {
        MappingError::Malformed { .. } | MappingError::TooManyNeeds | MappingError::TooLarge => {
            Problem::error("Failed", message)
        }
        MappingError::ReferenceNotFound { .. } => Problem::warning("ReferenceNotFound", message),
        MappingError::SecretNotFound { .. } | MappingError::SecretKeyNotFound { .. } => {
            Problem::warning("SecretNotFound", message)
        }
        MappingError::ConfigMapNotFound { .. } => Problem::warning("ConfigMapNotFound", message),
    }
}

/// Returns the owner of an object, which must be ready; none for kinds without an owner.
///
/// # Errors
///
/// If a request to the API server fails. The inner error is what the object lacks.
pub(super) async fn owner(
    object: &Object<'_>,
) -> Result<Result<Option<OwnerObject>, Problem>, kube::Error> {
    let reference = match mapping::owner(object.kind, object.value()) {
        Ok(Some(reference)) => reference,
        Ok(None) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(unmapped(&error))),
    };
    let reference = match reference {
        Reference::Object(reference) => reference,
        Reference::Id(id) => {
            let id: Result<ResourceId, InvalidId> = id.parse();
            let owner = id.map(|id| Some(OwnerObject { id, object: None }));
            let invalid =
                |error: InvalidId| Problem::error("Failed", format!("spec.owner.armId: {error}"));
            return Ok(owner.map_err(invalid));
        }
    };
    let waits = |why: &str| Problem::warning("WaitingForOwner", format!("Owner {reference} {why}"));
    let Some(found) = read_resource(object, &reference).await? else {
        return Ok(Err(waits(
            "does not exist: the resource is sent once it is ready.",
        )));
    };
    let generation = found.metadata.generation.unwrap_or_default();
    let is_ready =
        Stored::of(&found.data["status"]).is_some_and(|ready| ready.is_true_at(generation));
    let served = &object.of.context.provider.served;
    let kind = served.find(&reference.group, &reference.kind);
    match owner_id(kind.map(|served| served.kind), &found) {
        Some(id) if is_ready => Ok(Ok(Some(OwnerObject {
            id,
            object: Some(found),
        }))),
        _ => Ok(Err(waits("is not ready: the resource is sent once it is."))),
    }
}

/// Returns whether an object has an owner that is not being deleted.
///
/// # Errors
///
/// If a request to the API server fails.
pub(super) async fn is_owner_staying(object: &Object<'_>) -> Result<bool, kube::Error> {
    let Ok(Some(Reference::Object(reference))) = mapping::owner(object.kind, object.value()) else {
        return Ok(true);
    };
    let owner = read_resource(object, &reference).await?;
    Ok(owner.is_some_and(|owner| owner.metadata.deletion_timestamp.is_none()))
}

/// Returns the id that ids of owned resources begin with.
fn owner_id(kind: Option<&Kind>, owner: &DynamicObject) -> Option<ResourceId> {
    let behaviours = kind.map(Kind::behaviours).unwrap_or_default();
    let subscription = behaviours.iter().find_map(|behaviour| match behaviour {
        Behaviour::ChildIdFromSubscription { path } => path.select(&owner.data["status"]),
        _ => None,
    });
    match subscription.and_then(Value::as_str) {
        Some(subscription) => ResourceId::of_subscription(subscription).ok(),
        None => owner.annotations().get(RESOURCE_ID)?.parse().ok(),
    }
}

/// Composes the ARM id of a resource.
///
/// # Errors
///
/// If the name cannot be part of an id.
pub(super) fn compose_id(
    kind: &Kind,
    owner: Option<&ResourceId>,
    subscription: &str,
    name: &str,
) -> Result<ResourceId, InvalidId> {
    let of_kind: ResourceType = kind.arm_type().parse()?;
    match (owner, kind.scope()) {
        (Some(owner), _) => ResourceId::below_owner(owner, &of_kind, &[name]),
        (None, Scope::Tenant) => ResourceId::of_tenant(&of_kind, &[name]),
        (None, _) => ResourceId::of_resource_group(subscription, name),
    }
}

#[cfg(test)]
mod tests {
    use crate::table;

    use super::*;

    #[test]
    fn id_is_composed_from_the_owner_and_the_type() {
        const GROUP: &str = "/subscriptions/s/resourceGroups/g";
        let network = format!("{GROUP}/providers/Microsoft.Network/virtualNetworks/v");
        for (group, kind, owner, expected) in [
            (
                "resources.azure.com",
                "ResourceGroup",
                None,
                "/subscriptions/s/resourceGroups/n".to_owned(),
            ),
            (
                "network.azure.com",
                "VirtualNetwork",
                Some(GROUP),
                format!("{GROUP}/providers/Microsoft.Network/virtualNetworks/n"),
            ),
            (
                "network.azure.com",
                "VirtualNetworksSubnet",
                Some(network.as_str()),
                format!("{network}/subnets/n"),
            ),
            (
                "authorization.azure.com",
                "RoleAssignment",
                Some(network.as_str()),
                format!("{network}/providers/Microsoft.Authorization/roleAssignments/n"),
            ),
            (
                "subscription.azure.com",
                "Alias",
                None,
                "/providers/Microsoft.Subscription/aliases/n".to_owned(),
            ),
        ] {
            let known = table::find(group, kind).unwrap();
            let owner = owner.map(|owner| owner.parse().unwrap());
            let id = compose_id(known, owner.as_ref(), "s", "n").unwrap();
            assert_eq!(id.as_str(), expected, "{kind}");
        }
    }
}
