//! Lists the objects that use an identity and the namespaces that may, with the caller's rights.

use insula_identity::allowed::AllowedNamespaces;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::explain::Error;
use crate::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereIdentityReference,
};
use crate::operator::condition::{VCENTER, find};

/// The name under which unreadable namespaces are listed in `not_read`.
pub const NAMESPACES: &str = "Namespaces";

/// How many objects are listed per request.
const PAGE_SIZE: u32 = 500;

/// The objects that use an identity, and the namespaces that may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Users {
    /// The identity.
    pub identity: String,
    /// Clusters and zones that reference it and may use it.
    pub users: Vec<User>,
    /// Clusters that reference it and may not use it: they keep it only while they have machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<User>,
    /// Namespaces that may use it.
    pub allowed_namespaces: Vec<String>,
    /// Why no namespace may use it, if its selector is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Kinds that the caller may not list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

/// An object that references an identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// `VSphereCluster` or `VSphereDeploymentZone`.
    pub kind: &'static str,
    /// None for cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Whether its vCenter can be used.
    pub available: bool,
    /// The reason of the operator's condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Lists the users of an identity.
///
/// # Errors
///
/// If the identity does not exist or a request to the API server fails.
pub async fn list(client: &Client, name: &str) -> Result<Users, Error> {
    let what = format!("VSphereClusterIdentity {name}");
    let identities: Api<VSphereClusterIdentity> = Api::all(client.clone());
    let identity = match identities.get_opt(name).await {
        Ok(Some(identity)) => identity,
        Ok(None) => return Err(Error::NotFound(what)),
        Err(source) => return Err(Error::Read { what, source }),
    };
    let mut not_read = Vec::new();
    let clusters = list_all::<VSphereCluster>(client, "VSphereClusters", &mut not_read).await?;
    let zones =
        list_all::<VSphereDeploymentZone>(client, "VSphereDeploymentZones", &mut not_read).await?;
    let namespaces = list_all::<Namespace>(client, NAMESPACES, &mut not_read).await?;
    let names = |reference: &Option<VSphereIdentityReference>| {
        let reference = reference.as_ref();
        reference.is_some_and(|it| it.kind == "VSphereClusterIdentity" && it.name == name)
    };
    let clusters = clusters
        .into_iter()
        .filter(|it| names(&it.spec.identity_ref));
    let zones = zones.into_iter().filter(|it| names(&it.spec.identity_ref));
    let mut users: Vec<_> = clusters
        .map(|it| {
            let conditions = it.status.clone().map(|status| status.conditions);
            user("VSphereCluster", &it, conditions)
        })
        .chain(zones.map(|it| {
            let conditions = it.status.clone().map(|status| status.conditions);
            user("VSphereDeploymentZone", &it, conditions)
        }))
        .collect();
    users.sort_by(|one, other| {
        let by = |user: &User| (user.kind, user.namespace.clone(), user.name.clone());
        by(one).cmp(&by(other))
    });
    let (allowed_namespaces, trouble) =
        allowed(identity.spec.allowed_namespaces.as_ref(), &namespaces);
    // Without the right to list namespaces, no user can be shown as refused.
    let known = !not_read.iter().any(|what| what == NAMESPACES);
    let may = |user: &User| {
        let namespace = user.namespace.as_ref();
        !known || namespace.is_none_or(|namespace| allowed_namespaces.contains(namespace))
    };
    let (users, refused) = users.into_iter().partition(may);
    Ok(Users {
        identity: name.to_owned(),
        users,
        refused,
        allowed_namespaces,
        trouble,
        not_read,
    })
}

/// Returns the namespaces that the rule allows, or why there are none.
fn allowed(
    rule: Option<&AllowedNamespaces>,
    namespaces: &[Namespace],
) -> (Vec<String>, Option<String>) {
    let Some(rule) = rule else {
        return (Vec::new(), None);
    };
    let mut names = Vec::new();
    for namespace in namespaces {
        match rule.allows(namespace.labels()) {
            Ok(true) => names.push(namespace.name_any()),
            Ok(false) => {}
            Err(error) => return (Vec::new(), Some(error.to_string())),
        }
    }
    names.sort();
    (names, None)
}

fn user(kind: &'static str, object: &impl Resource, conditions: Option<Vec<Condition>>) -> User {
    let conditions = conditions.unwrap_or_default();
    let condition = find(&conditions, VCENTER);
    User {
        kind,
        namespace: object.namespace(),
        name: object.name_any(),
        available: condition.is_some_and(|condition| condition.status == "True"),
        reason: condition.map(|condition| condition.reason.clone()),
    }
}

/// Lists all objects of a kind that can be parsed; none if the caller may not list them, which is
/// then recorded in `not_read`.
async fn list_all<K>(
    client: &Client,
    kinds: &str,
    not_read: &mut Vec<String>,
) -> Result<Vec<K>, Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let mut parameters = ListParams::default().limit(PAGE_SIZE);
    let mut items = Vec::new();
    loop {
        let page = match api.list(&parameters).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                not_read.push(kinds.to_owned());
                return Ok(Vec::new());
            }
            Err(source) => {
                let what = kinds.to_owned();
                return Err(Error::Read { what, source });
            }
        };
        let valid = page.items.into_iter();
        items.extend(valid.filter_map(|one| one.try_parse().ok()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(items),
        }
    }
}
