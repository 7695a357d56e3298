//! Lists the objects that use an identity and the namespaces that may, with the caller's rights.

use insula_identity::allowed::Allowed;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use super::explain::{Error, Inspect};
use super::identity::reference_of;
use super::resolve::tenant_resource;
use super::triggers::space_of_path;
use super::{IdentityKind, IdentityUser};
use crate::condition::{find, valid_conditions};
use crate::spaces::client_for;

/// The name under which unreadable namespaces are listed in `not_read`.
pub const NAMESPACES: &str = "Namespaces";

/// The name under which unreadable objects of tenants are listed in `not_read`.
pub const TENANTS: &str = "objects of tenants";

/// How many objects are listed per request.
const PAGE_SIZE: u32 = 500;

/// The objects that use an identity, and the namespaces that may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Users {
    /// The identity.
    pub identity: String,
    /// Objects that reference it and may use it.
    pub users: Vec<User>,
    /// Objects that reference it and may not use it: they keep it only while they have members,
    /// such as machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<User>,
    /// Namespaces that may use it.
    pub allowed_namespaces: Vec<String>,
    /// Tenants that may use it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tenants: Vec<String>,
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
    /// Its kind.
    pub kind: &'static str,
    /// Its group.
    #[serde(skip)]
    pub group: String,
    /// The tenant that owns its space, if that is not the identity's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// None for cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Whether its server can be used.
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
pub async fn list(
    client: &Client,
    provider: &'static dyn Inspect,
    kind: &'static IdentityKind,
    name: &str,
) -> Result<Users, Error> {
    let what = format!("{} {name}", kind.kind);
    let identities: Api<DynamicObject> = Api::all_with(client.clone(), &(kind.resource)());
    let identity = match identities.get_opt(name).await {
        Ok(Some(identity)) => identity,
        Ok(None) => return Err(Error::NotFound(what)),
        Err(source) => return Err(Error::Read { what, source }),
    };
    let lister = Lister {
        provider,
        kind,
        name,
    };
    let mut not_read = Vec::new();
    let mut users = lister.users(client, &mut not_read).await?;
    let namespaces = ApiResource::erase::<Namespace>(&());
    let namespaces = list_all(client, &namespaces, NAMESPACES, &mut not_read).await?;
    users.sort_by(|one, other| {
        let by = |user: &User| (user.kind, user.namespace.clone(), user.name.clone());
        by(one).cmp(&by(other))
    });
    let rule = |key: &str| identity.data["spec"][key].clone();
    let (allowed_namespaces, mut trouble) = allowed(&rule("allowedNamespaces"), &namespaces);
    // Without the right to list namespaces, no user can be shown as refused.
    let known = !not_read.iter().any(|what| what == NAMESPACES);
    let may = |user: &User| {
        let namespace = user.namespace.as_ref();
        !known || namespace.is_none_or(|namespace| allowed_namespaces.contains(namespace))
    };
    let (mut users, refused): (Vec<_>, Vec<_>) = users.into_iter().partition(may);
    let tenants = rule("allowedTenants");
    let mut allowed_tenants = Vec::new();
    if !tenants.is_null() {
        let borrowed = lister.borrowed(client, &tenants, &mut not_read).await?;
        allowed_tenants = borrowed.tenants;
        users.extend(borrowed.users);
        trouble = trouble.or(borrowed.trouble);
    }
    Ok(Users {
        identity: name.to_owned(),
        users,
        refused,
        allowed_namespaces,
        allowed_tenants,
        trouble,
        not_read,
    })
}

/// The tenants that may borrow an identity, their objects that do, and what is wrong with the rule.
struct Borrowed {
    tenants: Vec<String>,
    users: Vec<User>,
    trouble: Option<String>,
}

/// Lists the users of one identity.
struct Lister<'a> {
    provider: &'static dyn Inspect,
    kind: &'static IdentityKind,
    name: &'a str,
}

impl Lister<'_> {
    /// Lists the objects that reference the identity.
    async fn users(&self, client: &Client, not_read: &mut Vec<String>) -> Result<Vec<User>, Error> {
        let mut users = Vec::new();
        for kind in self.kind.users {
            let plural = format!("{}s", kind.kind);
            let all = list_all(client, &(kind.resource)(), &plural, not_read).await?;
            let all = all.iter().filter(|object| {
                let reference = reference_of(object);
                reference == Some((self.kind.kind, self.name))
            });
            users.extend(all.map(|object| self.user(kind, object)));
        }
        Ok(users)
    }

    /// Lists the tenants that may borrow the identity, and their objects that do. Servers without
    /// tenants have none.
    async fn borrowed(
        &self,
        client: &Client,
        rule: &Value,
        not_read: &mut Vec<String>,
    ) -> Result<Borrowed, Error> {
        let mut unread = Vec::new();
        let tenants = list_all(client, &tenant_resource(), TENANTS, &mut unread).await?;
        let (mut names, trouble) = allowed(rule, &tenants);
        if rule["selector"].is_null() {
            // Without a selector it is lent to no tenant.
            names.clear();
        }
        let everywhere = client_for(client, "all");
        let own = list_all(&everywhere, &(self.kind.resource)(), TENANTS, &mut unread).await?;
        let own = own
            .iter()
            .filter(|identity| identity.name_any() == self.name);
        let own: Vec<_> = own.filter_map(tenant_of).collect();
        let users = self.users(&everywhere, &mut unread).await?;
        if !unread.is_empty() {
            not_read.push(TENANTS.to_owned());
        }
        let borrows = |user: &User| {
            let tenant = user.tenant.as_ref();
            tenant.is_some_and(|tenant| names.contains(tenant) && !own.contains(tenant))
        };
        let mut users: Vec<_> = users.into_iter().filter(borrows).collect();
        users.sort_by(|one, other| {
            let by = |user: &User| {
                (
                    user.tenant.clone(),
                    user.namespace.clone(),
                    user.name.clone(),
                )
            };
            by(one).cmp(&by(other))
        });
        Ok(Borrowed {
            tenants: names,
            users,
            trouble,
        })
    }

    fn user(&self, kind: &IdentityUser, object: &DynamicObject) -> User {
        let conditions = object.data["status"]["conditions"].clone();
        let conditions = valid_conditions(conditions).unwrap_or_default();
        let condition = find(&conditions, self.provider.condition(kind.kind));
        User {
            kind: kind.kind,
            group: (kind.resource)().group,
            tenant: tenant_of(object),
            namespace: object.namespace(),
            name: object.name_any(),
            available: condition.is_some_and(|condition| condition.status == "True"),
            reason: condition.map(|condition| condition.reason.clone()),
        }
    }
}

/// Returns the tenant that owns the space in which an object was listed.
fn tenant_of(object: &DynamicObject) -> Option<String> {
    let link = object.metadata.self_link.as_deref()?;
    space_of_path(link).map(|space| space.to_string())
}

/// Returns the objects that the rule allows, or why there are none.
fn allowed(rule: &Value, objects: &[DynamicObject]) -> (Vec<String>, Option<String>) {
    let rule = match serde_json::from_value::<Option<Allowed>>(rule.clone()) {
        Ok(Some(rule)) => rule,
        Ok(None) => return (Vec::new(), None),
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    let mut names = Vec::new();
    for object in objects {
        match rule.allows(object.labels()) {
            Ok(true) => names.push(object.name_any()),
            Ok(false) => {}
            Err(error) => return (Vec::new(), Some(error.to_string())),
        }
    }
    names.sort();
    (names, None)
}

/// Lists all objects of a kind; none if the caller may not list them or the server has no such
/// kind. The former is recorded in `not_read`.
async fn list_all(
    client: &Client,
    kind: &ApiResource,
    what: &str,
    not_read: &mut Vec<String>,
) -> Result<Vec<DynamicObject>, Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let mut parameters = ListParams::default().limit(PAGE_SIZE);
    let mut items = Vec::new();
    loop {
        let page = match api.list(&parameters).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                not_read.push(what.to_owned());
                return Ok(Vec::new());
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            Err(source) => {
                let what = what.to_owned();
                return Err(Error::Read { what, source });
            }
        };
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(items),
        }
    }
}
