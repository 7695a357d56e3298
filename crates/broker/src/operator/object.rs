//! The objects that the operator makes, and what can be done to them.

use std::fmt;

use insula_operator::part::{Part, Verdict};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::{Resource, ResourceExt};

/// An object that the operator makes, changes or deletes. Its `Debug` says no more than its
/// name: one of them is a Secret.
#[derive(Clone, PartialEq)]
pub(super) enum Object {
    /// A tenant of the Insula, which is a space.
    Space(Box<DynamicObject>),
    /// A kind, in that space.
    Definition(Box<CustomResourceDefinition>),
    Namespace(Box<Namespace>),
    Account(Box<ServiceAccount>),
    Role(Box<Role>),
    Binding(Box<RoleBinding>),
    Token(Box<Secret>),
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Create,
    /// If it is still as it was seen.
    Replace,
    /// If it is still the one that was seen.
    Delete,
    /// Takes off what others hold it by, if it is still the one that was seen. It goes, so
    /// that it does not matter what was written to it meanwhile.
    Release,
}

/// One step.
#[derive(Clone, PartialEq)]
pub(super) struct Act {
    pub deed: Deed,
    pub object: Object,
}

impl Act {
    pub fn create(object: Object) -> Self {
        Self {
            deed: Deed::Create,
            object,
        }
    }

    pub fn replace(object: Object) -> Self {
        Self {
            deed: Deed::Replace,
            object,
        }
    }

    pub fn delete(object: Object) -> Self {
        Self {
            deed: Deed::Delete,
            object,
        }
    }

    pub fn release(object: Object) -> Self {
        Self {
            deed: Deed::Release,
            object,
        }
    }

    /// Whether everything that follows has its place in what this makes.
    pub fn makes_ground(&self) -> bool {
        let is_ground = matches!(
            self.object,
            Object::Space(_) | Object::Definition(_) | Object::Namespace(_)
        );
        is_ground && self.deed == Deed::Create
    }

    /// Whether it makes something in the namespace.
    pub fn makes_inside(&self) -> bool {
        let is_inside = matches!(
            self.object,
            Object::Account(_) | Object::Role(_) | Object::Binding(_) | Object::Token(_)
        );
        is_inside && self.deed == Deed::Create
    }
}

/// What is to be done so that an object is as it should be.
pub(super) fn settle<K: Part>(wanted: K, found: Option<&K>) -> Vec<Act>
where
    Object: From<K>,
{
    let Some(found) = found else {
        return vec![Act::create(wanted.into())];
    };
    if is_going(found) {
        return remake(wanted, found);
    }
    match wanted.judge(found) {
        Verdict::Right => Vec::new(),
        Verdict::Replace(replacement) => vec![Act::replace((*replacement).into())],
        Verdict::Recreate => remake(wanted, found),
    }
}

/// What is to be done about an object that cannot become what it should be.
pub(super) fn remake<K: Resource + Clone>(wanted: K, found: &K) -> Vec<Act>
where
    Object: From<K>,
{
    let mut acts = Vec::from_iter(delete(found));
    acts.extend(release(found));
    acts.push(Act::create(wanted.into()));
    acts
}

/// Deletes it, unless that was said already.
pub(super) fn delete<K: Resource + Clone>(found: &K) -> Option<Act>
where
    Object: From<K>,
{
    (!is_going(found)).then(|| Act::delete(found.clone().into()))
}

/// Lets go of what is to be gone. Whoever may write it could have put finalizers on it; it
/// is ours, and nobody's promise but ours is to be kept about it.
pub(super) fn release<K: Resource + Clone>(found: &K) -> Option<Act>
where
    Object: From<K>,
{
    let held = !found.finalizers().is_empty();
    held.then(|| Act::release(found.clone().into()))
}

/// Whether it is there only until nobody holds it any more: as good as gone.
pub(super) fn is_going<K: Resource>(found: &K) -> bool {
    found.meta().deletion_timestamp.is_some()
}

/// The kind of an Insula's tenants.
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
        };
        write!(f, "{kind} {name}")
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.deed {
            Deed::Create => "create",
            Deed::Replace => "change",
            Deed::Delete => "delete",
            Deed::Release => "release",
        };
        write!(f, "{verb} {}", self.object)
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
