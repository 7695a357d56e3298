//! Deployment of the operator: `deploy axon-cp`.

mod lease;

use std::fmt::Debug;

use insula_operator::managed::{self, Ensured, Managed};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use super::has_namespace;
use super::permissions::{self, Permission};
use crate::error::Error;
use crate::names::{AXON, AXON_ADMIN, AXON_SPACES};
use crate::report::Report;
use crate::{crds, manifests, roles};

pub use lease::wait_for_operator;

const RBAC: &str = "rbac.authorization.k8s.io";

/// The settings of the deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct AxonSettings {
    /// The operator's image.
    pub operator_image: String,
    /// Whether to create a Deployment. Without one the operator is run elsewhere.
    pub deployment: bool,
    /// The tenant managers, in addition to the cluster's administrators.
    pub admins: Vec<Subject>,
    /// Whether it may create spaces, on Insula.
    pub spaces: bool,
}

/// Returns all objects in the order in which they are created.
pub fn manifests(settings: &AxonSettings) -> Vec<Value> {
    let mut objects = vec![manifests::value(&manifests::namespace(
        manifests::operator_metadata(AXON, None),
    ))];
    objects.extend(crds::all().iter().map(manifests::value));
    let parts = Parts::of(settings);
    objects.push(manifests::value(&parts.account));
    for (role, binding) in &parts.roles {
        objects.extend([manifests::value(role), manifests::value(binding)]);
    }
    for (role, binding) in &parts.cluster_roles {
        objects.extend([manifests::value(role), manifests::value(binding)]);
    }
    objects.extend(parts.deployment.iter().map(manifests::value));
    objects
}

/// Creates or updates all objects. Objects that are already as desired stay unchanged.
///
/// # Errors
///
/// [`Error::MissingPermissions`] before anything is written; any error of the server.
pub async fn deploy(
    client: &Client,
    settings: &AxonSettings,
    report: &dyn Report,
) -> Result<(), Error> {
    report.begin("Checking permissions");
    check(client, settings).await?;
    has_namespace(client, AXON).await?;
    report.begin("Deploying the Axon operator");
    ensure_cluster_scoped(
        client,
        &manifests::namespace(manifests::operator_metadata(AXON, None)),
        report,
    )
    .await?;
    crds::ensure(client, &crds::all(), report).await?;
    let parts = Parts::of(settings);
    ensure_namespaced(client, &parts.account, report).await?;
    for (role, binding) in &parts.roles {
        ensure_namespaced(client, role, report).await?;
        ensure_namespaced(client, binding, report).await?;
    }
    for (role, binding) in &parts.cluster_roles {
        ensure_cluster_scoped(client, role, report).await?;
        ensure_cluster_scoped(client, binding, report).await?;
    }
    if let Some(deployment) = &parts.deployment {
        ensure_namespaced(client, deployment, report).await?;
    }
    report.done("The Axon control plane is deployed");
    warn_about_leftovers(client, settings, report).await
}

/// Warns about objects of an earlier run with more options: permissions are revoked only
/// explicitly.
async fn warn_about_leftovers(
    client: &Client,
    settings: &AxonSettings,
    report: &dyn Report,
) -> Result<(), Error> {
    if settings.admins.is_empty() {
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), AXON);
        let found = bindings.get_opt(AXON_ADMIN).await;
        if let Some(found) = found.map_err(Error::when(format!("read RoleBinding {AXON_ADMIN}")))? {
            let named = found.subjects.unwrap_or_default();
            let named: Vec<_> = named
                .iter()
                .map(|it| format!("{} {}", it.kind, it.name))
                .collect();
            report.warn(&format!(
                "Role and RoleBinding {AXON_ADMIN} in namespace {AXON} are kept, although no --axon-admin was given: {} may manage tenants. `kubectl -n {AXON} delete rolebinding,role {AXON_ADMIN}` revokes it",
                if named.is_empty() { "no user".to_owned() } else { named.join(", ") }
            ));
        }
    }
    if !settings.spaces {
        let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
        let found = bindings.get_opt(AXON_SPACES).await;
        let attempted = format!("read ClusterRoleBinding {AXON_SPACES}");
        if found.map_err(Error::when(attempted))?.is_some() {
            report.warn(&format!(
                "ClusterRole and ClusterRoleBinding {AXON_SPACES} are kept, although --spaces was not given: the operator may create spaces. `kubectl delete clusterrolebinding,clusterrole {AXON_SPACES}` revokes it"
            ));
        }
    }
    Ok(())
}

/// Checks that the caller may write all objects and has all permissions that are granted.
/// Nothing is written.
///
/// # Errors
///
/// [`Error::MissingPermissions`] lists everything that is missing; any error of the server.
pub async fn check(client: &Client, settings: &AxonSettings) -> Result<(), Error> {
    let mut missing = permissions::missing(client, access_permissions(settings)).await?;
    let may_grant = |verb, resource| Permission::new(verb, RBAC, resource, None);
    let without_having = [
        may_grant("escalate", "roles"),
        may_grant("escalate", "clusterroles"),
        may_grant("bind", "roles"),
        may_grant("bind", "clusterroles"),
    ];
    let without_having = permissions::missing(client, without_having.into()).await?;
    if !without_having.is_empty() {
        missing.extend(permissions::missing(client, granted_permissions(settings)).await?);
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::MissingPermissions(permissions::describe(&missing))),
    }
}

/// The objects apart from the namespace and the definitions.
struct Parts {
    account: ServiceAccount,
    roles: Vec<(Role, RoleBinding)>,
    cluster_roles: Vec<(ClusterRole, ClusterRoleBinding)>,
    deployment: Option<Deployment>,
}

impl Parts {
    fn of(settings: &AxonSettings) -> Self {
        let operator = || vec![manifests::account_subject(AXON, AXON)];
        let role = |name, rules, subjects| {
            let meta = manifests::operator_metadata(name, Some(AXON));
            let role = manifests::role(meta.clone(), rules);
            (role, manifests::binding(meta, name, subjects))
        };
        let cluster_role = |name, rules| {
            let meta = manifests::operator_metadata(name, None);
            let role = manifests::cluster_role(meta.clone(), rules);
            (role, manifests::cluster_binding(meta, name, operator()))
        };
        let mut roles = vec![role(AXON, roles::operator_in_own_namespace(), operator())];
        if !settings.admins.is_empty() {
            let admins = settings.admins.clone();
            roles.push(role(AXON_ADMIN, roles::axon_admin(), admins));
        }
        let mut cluster_roles = vec![cluster_role(AXON, roles::operator())];
        if settings.spaces {
            cluster_roles.push(cluster_role(AXON_SPACES, roles::operator_for_spaces()));
        }
        let image = settings.operator_image.as_str();
        Self {
            account: manifests::account(manifests::operator_metadata(AXON, Some(AXON))),
            roles,
            cluster_roles,
            deployment: settings.deployment.then(|| manifests::deployment(image)),
        }
    }
}

/// Returns the permissions to read and write the objects.
fn access_permissions(settings: &AxonSettings) -> Vec<Permission> {
    let home = Some(AXON);
    let mut objects = vec![
        ("", "namespaces", None),
        ("apiextensions.k8s.io", "customresourcedefinitions", None),
        ("", "serviceaccounts", home),
        (RBAC, "roles", home),
        (RBAC, "rolebindings", home),
        (RBAC, "clusterroles", None),
        (RBAC, "clusterrolebindings", None),
    ];
    if settings.deployment {
        objects.push(("apps", "deployments", home));
    }
    let objects = objects.into_iter();
    objects
        .flat_map(|(group, resource, namespace)| {
            ["get", "create", "update"]
                .map(|verb| Permission::new(verb, group, resource, namespace))
        })
        .collect()
}

/// Returns the permissions that the operator and the tenant managers are granted.
fn granted_permissions(settings: &AxonSettings) -> Vec<Permission> {
    let mut granted_permissions = Permission::granted_by(&roles::operator(), None);
    granted_permissions.extend(Permission::granted_by(
        &roles::operator_in_own_namespace(),
        Some(AXON),
    ));
    if !settings.admins.is_empty() {
        granted_permissions.extend(Permission::granted_by(&roles::axon_admin(), Some(AXON)));
    }
    if settings.spaces {
        granted_permissions.extend(Permission::granted_by(&roles::operator_for_spaces(), None));
    }
    granted_permissions
}

async fn ensure_namespaced<K>(client: &Client, wanted: &K, report: &dyn Report) -> Result<(), Error>
where
    K: Managed + Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + Debug,
{
    ensure(&Api::namespaced(client.clone(), AXON), wanted, report).await
}

async fn ensure_cluster_scoped<K>(
    client: &Client,
    wanted: &K,
    report: &dyn Report,
) -> Result<(), Error>
where
    K: Managed + Resource<DynamicType = (), Scope = ClusterResourceScope> + Serialize + Debug,
{
    ensure(&Api::all(client.clone()), wanted, report).await
}

async fn ensure<K>(api: &Api<K>, wanted: &K, report: &dyn Report) -> Result<(), Error>
where
    K: Managed + Resource<DynamicType = ()>,
{
    let what = format!("{} {}", K::kind(&()), wanted.name_any());
    let ensured = managed::ensure(api, wanted).await;
    match ensured.map_err(Error::when(format!("ensure {what}")))? {
        Ensured::Unchanged => {}
        Ensured::Created => report.done(&format!("Created {what}")),
        Ensured::Replaced => report.done(&format!("Updated {what}")),
    }
    Ok(())
}
