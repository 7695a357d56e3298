//! The users of an identity, read from the API server.

use std::collections::{BTreeMap, BTreeSet};

use insula_identity::allowed::Allowed;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::super::resolve::tenant_resource;
use super::super::triggers::space_of_path;
use super::super::{Dependency, IdentityKind, IdentityUser, Provider, Reconciliation};
use super::{reference_of, status_of};
use crate::key::{GroupKind, Key, Space};
use crate::read::{get_named_metadata, list_each};
use crate::spaces::client_for;

/// Returns, sorted, the cluster-scoped objects that reference an identity and the namespaced ones
/// that reference it and may use it or have members. An object that only references it does not
/// keep it.
pub(super) async fn of<P: Provider>(
    of: &Reconciliation<'_, P>,
    kind: &IdentityKind,
    identity: &DynamicObject,
) -> Result<Vec<String>, kube::Error> {
    let mut lookup = UserLookup {
        of,
        allowed: serde_json::from_value(identity.data["spec"]["allowedNamespaces"].clone()).ok(),
        allowed_by_namespace: BTreeMap::new(),
        members: MemberLookup {
            of,
            space: of.key.space.clone(),
            labels: BTreeMap::new(),
        },
    };
    let mut users = Vec::new();
    for user in kind.users {
        let (client, resource) = (of.client(), (user.resource)());
        let referrers = list_each(&client, &resource, |object| {
            references(&object, kind, &of.key.name).then(|| Referrer::of(&object, user))
        });
        for referrer in referrers.await? {
            if lookup.counts(user, &referrer).await? {
                users.push(referrer.text);
            }
        }
    }
    users.append(&mut borrowers(of, kind, identity).await?);
    users.sort();
    Ok(users)
}

/// Returns the objects of tenants that use the identity of the operator's own space: those that
/// may, and those that have members, which cannot be cleaned up without it.
async fn borrowers<P: Provider>(
    of: &Reconciliation<'_, P>,
    kind: &IdentityKind,
    identity: &DynamicObject,
) -> Result<Vec<String>, kube::Error> {
    let allowed = &identity.data["spec"]["allowedTenants"];
    let had_users = status_of(identity).users.is_some_and(|users| users > 0);
    // Most identities are lent to no tenant, and never were.
    if !of.context.tenants || of.key.space.is_some() || (allowed.is_null() && !had_users) {
        return Ok(Vec::new());
    }
    let allowed: Option<Allowed> = serde_json::from_value(allowed.clone()).ok().flatten();
    let everywhere = client_for(&of.context.client, "all");
    let name = of.key.name.as_str();
    let resource = (kind.resource)();
    let own = list_each(&everywhere, &resource, |found| {
        let space = space_of(&found)?;
        (found.name_any() == name).then_some(space)
    });
    let own: BTreeSet<String> = own.await?.into_iter().collect();
    let mut lookups: BTreeMap<String, BorrowerLookup<'_, P>> = BTreeMap::new();
    let mut users = Vec::new();
    for user in kind.users {
        let resource = (user.resource)();
        let referrers = list_each(&everywhere, &resource, |object| {
            let space = space_of(&object).filter(|space| !own.contains(space))?;
            references(&object, kind, name).then(|| (space, Referrer::of(&object, user)))
        });
        for (tenant, referrer) in referrers.await? {
            if !lookups.contains_key(&tenant) {
                let is_allowed = is_lent_to(of, allowed.as_ref(), &tenant).await?;
                let lookup = BorrowerLookup::new(of, &tenant, is_allowed);
                lookups.insert(tenant.clone(), lookup);
            }
            if let Some(lookup) = lookups.get_mut(&tenant)
                && lookup.counts(user, &referrer).await?
            {
                users.push(format!("{} of tenant {tenant}", referrer.text));
            }
        }
    }
    Ok(users)
}

/// Whether objects of one tenant count as users.
struct BorrowerLookup<'a, P: Provider> {
    is_allowed: bool,
    members: MemberLookup<'a, P>,
}

impl<'a, P: Provider> BorrowerLookup<'a, P> {
    fn new(of: &'a Reconciliation<'a, P>, tenant: &str, is_allowed: bool) -> Self {
        let members = MemberLookup {
            of,
            space: Some(tenant.into()),
            labels: BTreeMap::new(),
        };
        Self {
            is_allowed,
            members,
        }
    }

    async fn counts(
        &mut self,
        user: &IdentityUser,
        referrer: &Referrer,
    ) -> Result<bool, kube::Error> {
        Ok(self.is_allowed || self.members.has_members(user, referrer).await?)
    }
}

async fn is_lent_to<P: Provider>(
    of: &Reconciliation<'_, P>,
    allowed: Option<&Allowed>,
    tenant: &str,
) -> Result<bool, kube::Error> {
    // Without a selector it is lent to no tenant.
    let Some(allowed) = allowed.filter(|allowed| allowed.selector.is_some()) else {
        return Ok(false);
    };
    if allowed.check().is_ok() && allowed.allows_all() {
        return Ok(true);
    }
    let resource = tenant_resource();
    let key = Key::cluster_scoped(GroupKind::of_resource(&resource), None, tenant);
    of.depend_on(Dependency::Object(key));
    let tenants: Api<DynamicObject> = Api::all_with(of.context.client.clone(), &resource);
    let found = get_named_metadata(&tenants, tenant).await?;
    let labels = found.as_ref().map(ResourceExt::labels);
    Ok(labels.is_some_and(|labels| matches!(allowed.allows(labels), Ok(true))))
}

fn space_of(object: &DynamicObject) -> Option<String> {
    let link = object.metadata.self_link.as_deref()?;
    space_of_path(link).map(|space| space.to_string())
}

fn references(object: &DynamicObject, kind: &IdentityKind, name: &str) -> bool {
    reference_of(object) == Some((kind.kind, name))
}

/// An object that references an identity.
struct Referrer {
    /// Its kind, namespace and name.
    text: String,
    namespace: Option<String>,
    /// The value of the label of its members.
    group: Option<String>,
}

impl Referrer {
    fn of(object: &DynamicObject, user: &IdentityUser) -> Self {
        let (kind, name, namespace) = (user.kind, object.name_any(), object.namespace());
        Self {
            text: match &namespace {
                Some(namespace) => format!("{kind} {namespace}/{name}"),
                None => format!("{kind} {name}"),
            },
            group: user.members.map(|members| (members.value)(object)),
            namespace,
        }
    }
}

/// Caches which namespaces may use an identity, and which groups have members.
struct UserLookup<'a, P: Provider> {
    of: &'a Reconciliation<'a, P>,
    allowed: Option<Allowed>,
    allowed_by_namespace: BTreeMap<String, bool>,
    members: MemberLookup<'a, P>,
}

impl<P: Provider> UserLookup<'_, P> {
    /// Returns whether an object that references the identity counts as a user.
    async fn counts(
        &mut self,
        user: &IdentityUser,
        referrer: &Referrer,
    ) -> Result<bool, kube::Error> {
        let Some(namespace) = &referrer.namespace else {
            return Ok(true);
        };
        Ok(self.is_allowed(namespace).await? || self.members.has_members(user, referrer).await?)
    }

    async fn is_allowed(&mut self, namespace: &str) -> Result<bool, kube::Error> {
        let Some(allowed) = &self.allowed else {
            return Ok(false);
        };
        if allowed.check().is_ok() && allowed.allows_all() {
            return Ok(true);
        }
        if let Some(is_allowed) = self.allowed_by_namespace.get(namespace) {
            return Ok(*is_allowed);
        }
        let labels = self.of.namespace_labels(namespace).await?;
        let is = labels.is_some_and(|labels| matches!(allowed.allows(&labels), Ok(true)));
        self.allowed_by_namespace.insert(namespace.to_owned(), is);
        Ok(is)
    }
}

/// Finds out which groups have members, in one space. Each namespace is listed once, however many
/// groups it has.
struct MemberLookup<'a, P: Provider> {
    of: &'a Reconciliation<'a, P>,
    space: Space,
    /// The values of the member label, by kind of user and namespace.
    labels: BTreeMap<(&'static str, String), BTreeSet<String>>,
}

impl<P: Provider> MemberLookup<'_, P> {
    /// Returns whether an object has members, which cannot be cleaned up without the identity.
    async fn has_members(
        &mut self,
        user: &IdentityUser,
        referrer: &Referrer,
    ) -> Result<bool, kube::Error> {
        let (Some(members), Some(namespace), Some(group)) =
            (user.members, &referrer.namespace, &referrer.group)
        else {
            return Ok(false);
        };
        self.of.depend_on(Dependency::Members {
            space: self.space.clone(),
            namespace: namespace.clone(),
            value: group.clone(),
        });
        let at = (user.kind, namespace.clone());
        if !self.labels.contains_key(&at) {
            let mut labels = BTreeSet::new();
            for kind in members.kinds {
                labels.append(&mut self.labels_of(&kind(), namespace).await?);
            }
            self.labels.insert(at.clone(), labels);
        }
        let labels = self.labels.get(&at);
        Ok(labels.is_some_and(|labels| labels.contains(group)))
    }

    /// Returns the values of the member label in a namespace.
    async fn labels_of(
        &self,
        kind: &ApiResource,
        namespace: &str,
    ) -> Result<BTreeSet<String>, kube::Error> {
        let client = self.of.context.client(self.space.as_deref());
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, kind);
        let label = P::NAMES.member_label;
        let listed = api
            .list_metadata(&ListParams::default().labels(label))
            .await?;
        let labels = listed.items.iter().map(|one| one.labels());
        let labels = labels.filter_map(|labels| labels.get(label).cloned());
        Ok(labels.collect())
    }
}
