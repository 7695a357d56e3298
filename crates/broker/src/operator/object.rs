//! The objects that the operator manages, and the actions on them.

use std::fmt;

use insula_operator::managed::{Drift, Managed};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::{Resource, ResourceExt};

/// An object that the operator creates, changes or deletes. Its `Debug` shows only the name,
/// since one of them is a Secret.
#[derive(Clone, PartialEq)]
pub(super) enum Object {
    /// A tenant of an Insula server, which is a space.
    Space(Box<DynamicObject>),
    /// A definition in that space.
    Definition(Box<CustomResourceDefinition>),
    Namespace(Box<Namespace>),
    Account(Box<ServiceAccount>),
    Role(Box<Role>),
    Binding(Box<RoleBinding>),
    Token(Box<Secret>),
    Quota(Box<ResourceQuota>),
}

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    /// If the object is unchanged.
    Replace,
    /// If it is the same object, by UID.
    Delete,
    /// Removes all finalizers, if it is the same object by UID. Concurrent changes do not
    /// matter, because it is being deleted.
    RemoveFinalizers,
}

/// An action of a plan.
#[derive(Clone, PartialEq)]
pub(super) struct Action {
    pub operation: Operation,
    pub object: Object,
}

impl Action {
    pub fn create(object: Object) -> Self {
        Self {
            operation: Operation::Create,
            object,
        }
    }

    pub fn replace(object: Object) -> Self {
        Self {
            operation: Operation::Replace,
            object,
        }
    }

    pub fn delete(object: Object) -> Self {
        Self {
            operation: Operation::Delete,
            object,
        }
    }

    pub fn remove_finalizers(object: Object) -> Self {
        Self {
            operation: Operation::RemoveFinalizers,
            object,
        }
    }

    /// Returns whether it creates a container for all following objects.
    pub fn creates_container(&self) -> bool {
        let is_ground = matches!(
            self.object,
            Object::Space(_) | Object::Definition(_) | Object::Namespace(_)
        );
        is_ground && self.operation == Operation::Create
    }

    /// Returns whether it creates an object in the namespace.
    pub fn creates_in_namespace(&self) -> bool {
        let is_inside = matches!(
            self.object,
            Object::Account(_)
                | Object::Role(_)
                | Object::Binding(_)
                | Object::Token(_)
                | Object::Quota(_)
        );
        is_inside && self.operation == Operation::Create
    }
}

/// Returns the actions that bring an object into its desired state.
pub(super) fn plan_part<K: Managed>(desired: K, found: Option<&K>) -> Vec<Action>
where
    Object: From<K>,
{
    let Some(found) = found else {
        return vec![Action::create(desired.into())];
    };
    if is_being_deleted(found) {
        return recreate(desired, found);
    }
    match desired.diff(found) {
        Drift::InSync => Vec::new(),
        Drift::Replace(replacement) => vec![Action::replace((*replacement).into())],
        Drift::Recreate => recreate(desired, found),
    }
}

/// Returns the actions that replace an object which cannot be updated.
pub(super) fn recreate<K: Resource + Clone>(desired: K, found: &K) -> Vec<Action>
where
    Object: From<K>,
{
    let mut actions = Vec::from_iter(delete(found));
    actions.extend(remove_finalizers(found));
    actions.push(Action::create(desired.into()));
    actions
}

/// Deletes an object, unless it is already being deleted.
pub(super) fn delete<K: Resource + Clone>(found: &K) -> Option<Action>
where
    Object: From<K>,
{
    (!is_being_deleted(found)).then(|| Action::delete(found.clone().into()))
}

/// Removes the finalizers of an object that is to be deleted. Every user who may write it
/// could have added some; the object is the operator's, and none of them is honoured.
pub(super) fn remove_finalizers<K: Resource + Clone>(found: &K) -> Option<Action>
where
    Object: From<K>,
{
    let held = !found.finalizers().is_empty();
    held.then(|| Action::remove_finalizers(found.clone().into()))
}

/// Returns whether an object is being deleted, which counts as absent.
pub(super) fn is_being_deleted<K: Resource>(found: &K) -> bool {
    found.meta().deletion_timestamp.is_some()
}

/// The kind of an Insula server's tenants.
pub(super) fn space_kind() -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Tenant".to_owned(),
        plural: "tenants".to_owned(),
    }
}

impl From<DynamicObject> for Object {
    fn from(space: DynamicObject) -> Self {
        Self::Space(Box::new(space))
    }
}

impl From<CustomResourceDefinition> for Object {
    fn from(definition: CustomResourceDefinition) -> Self {
        Self::Definition(Box::new(definition))
    }
}

impl From<Namespace> for Object {
    fn from(namespace: Namespace) -> Self {
        Self::Namespace(Box::new(namespace))
    }
}

impl From<ServiceAccount> for Object {
    fn from(account: ServiceAccount) -> Self {
        Self::Account(Box::new(account))
    }
}

impl From<Role> for Object {
    fn from(role: Role) -> Self {
        Self::Role(Box::new(role))
    }
}

impl From<RoleBinding> for Object {
    fn from(binding: RoleBinding) -> Self {
        Self::Binding(Box::new(binding))
    }
}

impl From<Secret> for Object {
    fn from(token: Secret) -> Self {
        Self::Token(Box::new(token))
    }
}

impl From<ResourceQuota> for Object {
    fn from(quota: ResourceQuota) -> Self {
        Self::Quota(Box::new(quota))
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::Space(space) => ("space", space.name_any()),
            Self::Definition(definition) => ("definition", definition.name_any()),
            Self::Namespace(namespace) => ("namespace", namespace.name_any()),
            Self::Account(account) => ("service account", account.name_any()),
            Self::Role(role) => ("role", role.name_any()),
            Self::Binding(binding) => ("role binding", binding.name_any()),
            Self::Token(token) => ("secret", token.name_any()),
            Self::Quota(quota) => ("resource quota", quota.name_any()),
        };
        write!(f, "{kind} {name}")
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.operation {
            Operation::Create => "create",
            Operation::Replace => "change",
            Operation::Delete => "delete",
            Operation::RemoveFinalizers => "remove finalizers of",
        };
        write!(f, "{verb} {}", self.object)
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
