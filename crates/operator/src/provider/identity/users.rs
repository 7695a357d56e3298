//! The users of an identity, read from the API server.

use std::collections::{BTreeMap, BTreeSet};

use insula_identity::allowed::Allowed;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::super::resolve::tenant_resource;
use super::super::triggers::space_of_path;
use super::super::{Dependency, IdentityKind, IdentityUser, Members, Provider, Reconciliation};
use super::reference_of;
use crate::key::{GroupKind, Key};
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
        member_labels: BTreeMap::new(),
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

/// Returns the objects of tenants that use the identity, if the operator's own space lends it.
async fn borrowers<P: Provider>(
    of: &Reconciliation<'_, P>,
    kind: &IdentityKind,
    identity: &DynamicObject,
) -> Result<Vec<String>, kube::Error> {
    let allowed = &identity.data["spec"]["allowedTenants"];
    if !of.context.tenants || of.key.space.is_some() || allowed.is_null() {
        return Ok(Vec::new());
    }
    let Ok(allowed) = serde_json::from_value::<Allowed>(allowed.clone()) else {
        return Ok(Vec::new());
    };
    let everywhere = client_for(&of.context.client, "all");
    let name = of.key.name.as_str();
    let resource = (kind.resource)();
    let own = list_each(&everywhere, &resource, |found| {
        let space = space_of(&found)?;
        (found.name_any() == name).then_some(space)
    });
    let own: BTreeSet<String> = own.await?.into_iter().collect();
    let mut users = Vec::new();
    for user in kind.users {
        let resource = (user.resource)();
        let referrers = list_each(&everywhere, &resource, |object| {
            let space = space_of(&object).filter(|space| !own.contains(space))?;
            references(&object, kind, name).then(|| (space, Referrer::of(&object, user).text))
        });
        users.extend(referrers.await?);
    }
    let mut allowed_tenants = BTreeMap::new();
    for (tenant, _) in &users {
        if !allowed_tenants.contains_key(tenant) {
            let may = is_lent_to(of, &allowed, tenant).await?;
            allowed_tenants.insert(tenant.clone(), may);
        }
    }
    let may_use = |tenant: &String| allowed_tenants.get(tenant) == Some(&true);
    let users = users.into_iter().filter(|(tenant, _)| may_use(tenant));
    Ok(users
        .map(|(tenant, text)| format!("{text} of tenant {tenant}"))
        .collect())
}

async fn is_lent_to<P: Provider>(
    of: &Reconciliation<'_, P>,
    allowed: &Allowed,
    tenant: &str,
) -> Result<bool, kube::Error> {
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
    /// The values of the member label, by kind of user and namespace.
    member_labels: BTreeMap<(&'static str, String), BTreeSet<String>>,
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
        if self.is_allowed(namespace).await? {
            return Ok(true);
        }
        match user.members.zip(referrer.group.as_ref()) {
            Some((members, group)) => self.has_members(user, members, namespace, group).await,
            None => Ok(false),
        }
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

    /// Returns whether a group has members, which cannot be cleaned up without the identity. Each
    /// namespace is listed once, however many groups it has.
    async fn has_members(
        &mut self,
        user: &IdentityUser,
        members: Members,
        namespace: &str,
        group: &str,
    ) -> Result<bool, kube::Error> {
        self.of.depend_on_members(namespace, group);
        let at = (user.kind, namespace.to_owned());
        if !self.member_labels.contains_key(&at) {
            let mut labels = BTreeSet::new();
            for kind in members.kinds {
                labels.append(&mut self.labels(&kind(), namespace).await?);
            }
            self.member_labels.insert(at.clone(), labels);
        }
        let labels = self.member_labels.get(&at);
        Ok(labels.is_some_and(|labels| labels.contains(group)))
    }

    /// Returns the values of the member label in a namespace.
    async fn labels(
        &self,
        kind: &ApiResource,
        namespace: &str,
    ) -> Result<BTreeSet<String>, kube::Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.of.client(), namespace, kind);
        let label = P::NAMES.member_label;
        let listed = api
            .list_metadata(&ListParams::default().labels(label))
            .await?;
        let labels = listed.items.iter().map(|one| one.labels());
        let labels = labels.filter_map(|labels| labels.get(label).cloned());
        Ok(labels.collect())
    }
}
