//! The observed state, read from the server and never from watch events.

use k8s_openapi::api::core::v1::{Namespace, ResourceQuota, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding, Subject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use kube::{Api, Client};

use super::context::Context;
use super::desired::Desired;
use super::object::space_kind;
use crate::error::Error;
use crate::names::{ADMIN, ADMIN_TOKEN, AXON, AXON_ADMIN, CLUSTER, QUOTA};
use crate::tenant::Isolation;

/// The observed state of a tenant.
#[derive(Clone, Default)]
pub(super) struct Observed {
    /// Whether the server has spaces; only read for a tenant with one.
    pub spaces_served: bool,
    pub space: Option<DynamicObject>,
    /// The kinds required in the space, each with whether it is served; `None` if it does not
    /// exist.
    pub definitions: Vec<(CustomResourceDefinition, Option<bool>)>,
    pub namespace: Option<Namespace>,
    /// The contents of the namespace, if it belongs to the tenant.
    pub contents: NamespaceContents,
    /// The tenant managers, if there are any.
    pub offering: Option<Vec<Subject>>,
}

/// The contents of a tenant's namespace.
#[derive(Clone, Default)]
pub(super) struct NamespaceContents {
    pub account: Option<ServiceAccount>,
    pub admin_role: Option<Role>,
    pub admin_binding: Option<RoleBinding>,
    pub cluster_role: Option<Role>,
    pub token: Option<Secret>,
    pub quota: Option<ResourceQuota>,
    pub offering_role: Option<Role>,
    pub offering_binding: Option<RoleBinding>,
}

/// The location of a tenant's broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// In the space of the Tenant object.
    Local,
    /// In a space of its own.
    Space,
}

impl Location {
    /// Returns the desired location.
    pub fn desired(desired: Desired<'_>) -> Self {
        match desired.tenant.spec.isolation.unwrap_or_default() {
            Isolation::Namespace => Self::Local,
            Isolation::Space => Self::Space,
        }
    }

    /// Returns the current location according to the status.
    pub fn from_status(desired: Desired<'_>) -> Option<Self> {
        let status = desired.tenant.status.as_ref()?;
        status.namespace.as_ref()?;
        Some(match status.space {
            Some(_) => Self::Space,
            None => Self::Local,
        })
    }

    /// Returns the client for the location.
    pub fn client(self, context: &Context, desired: Desired<'_>) -> Client {
        match self {
            Self::Local => context.client.clone(),
            Self::Space => {
                insula_operator::spaces::client_for(&context.client, &desired.id.namespace())
            }
        }
    }
}

/// Reads everything that matters for a tenant at this location.
pub(super) async fn observe(
    context: &Context,
    desired: Desired<'_>,
    location: Location,
) -> Result<Observed, Error> {
    let mut observed = Observed::default();
    if location == Location::Space {
        observed.spaces_served = context.serves_spaces().await?;
        if !observed.spaces_served {
            return Ok(observed);
        }
        observed.space = find_space(context, desired).await?;
        match &observed.space {
            Some(space) if desired.owns(&space.metadata) => {}
            Some(_) => return Ok(observed),
            None => {
                // A space cannot have the name of a namespace in the system space.
                let namespaces: Api<Namespace> = Api::all(context.client.clone());
                let name = desired.id.namespace();
                observed.namespace = find(&namespaces, &name, "namespace").await?;
                return Ok(observed);
            }
        }
    }
    let client = location.client(context, desired);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    observed.namespace = find(&namespaces, &desired.id.namespace(), "namespace").await?;
    if desired.tenant.metadata.deletion_timestamp.is_none() {
        match location {
            Location::Local => observed.offering = find_offering(context).await?,
            Location::Space => observed.definitions = find_definitions(context, &client).await?,
        }
    }
    match &observed.namespace {
        Some(namespace) if desired.owns(&namespace.metadata) => {
            observed.contents = read_contents(client, &desired.id.namespace()).await?;
        }
        _ => {}
    }
    Ok(observed)
}

async fn find_space(
    context: &Context,
    desired: Desired<'_>,
) -> Result<Option<DynamicObject>, Error> {
    let spaces: Api<DynamicObject> = Api::all_with(context.client.clone(), &space_kind());
    find(&spaces, &desired.id.namespace(), "space").await
}

async fn read_contents(client: Client, namespace: &str) -> Result<NamespaceContents, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    let quotas: Api<ResourceQuota> = Api::namespaced(client, namespace);
    let (account, admin_role, admin_binding, cluster_role, token, quota, role, binding) = tokio::try_join!(
        find(&accounts, ADMIN, "service account"),
        find(&roles, ADMIN, "role"),
        find(&bindings, ADMIN, "role binding"),
        find(&roles, CLUSTER, "role"),
        find(&secrets, ADMIN_TOKEN, "secret"),
        find_quota(&quotas),
        find(&roles, AXON_ADMIN, "role"),
        find(&bindings, AXON_ADMIN, "role binding"),
    )?;
    Ok(NamespaceContents {
        account,
        admin_role,
        admin_binding,
        cluster_role,
        token,
        quota,
        offering_role: role,
        offering_binding: binding,
    })
}

/// Returns the quota. One that may not be read counts as absent: an operator with the role of
/// an earlier version still repairs and removes everything else, and reports that it cannot
/// create the quota.
async fn find_quota(quotas: &Api<ResourceQuota>) -> Result<Option<ResourceQuota>, Error> {
    match find(quotas, QUOTA, "resource quota").await {
        Err(error) if error.is_forbidden() => Ok(None),
        found => found,
    }
}

/// Returns the tenant managers: the subjects of the role binding in the operator's namespace,
/// if the role exists too.
async fn find_offering(context: &Context) -> Result<Option<Vec<Subject>>, Error> {
    let roles: Api<Role> = Api::namespaced(context.client.clone(), AXON);
    let bindings: Api<RoleBinding> = Api::namespaced(context.client.clone(), AXON);
    let (role, binding) = tokio::try_join!(
        find(&roles, AXON_ADMIN, "role"),
        find(&bindings, AXON_ADMIN, "role binding"),
    )?;
    let subjects = binding.and_then(|binding| binding.subjects);
    let subjects = subjects.filter(|subjects| !subjects.is_empty());
    Ok(role.and(subjects))
}

async fn find_definitions(
    context: &Context,
    client: &Client,
) -> Result<Vec<(CustomResourceDefinition, Option<bool>)>, Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut found = Vec::new();
    for desired in &context.definitions {
        let name = desired.metadata.name.clone().unwrap_or_default();
        let there = find(&definitions, &name, "definition").await?;
        found.push((desired.clone(), there.as_ref().map(is_established)));
    }
    Ok(found)
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Established" && condition.status == "True")
}

async fn find<K>(api: &Api<K>, name: &str, kind: &str) -> Result<Option<K>, Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let found = api.get_opt(name).await;
    found.map_err(Error::when(format!("read {kind} {name}")))
}
