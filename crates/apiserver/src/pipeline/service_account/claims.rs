//! What a token of a service account says.

use insula_access::jwt::Claims;
use insula_core::Space;
use insula_kinds::Value;
use serde_json::json;

/// Whose token it is, and what it lives with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The space of the account.
    pub space: Space,
    /// The UID of that space's tenant: the next tenant of its name has another.
    pub tenant_uid: Option<String>,
    /// The account's namespace.
    pub namespace: String,
    /// Its name in there.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What the token is bound to.
    pub bound: Bound,
    /// The object's node, as a pod's token says it.
    pub node: Option<Reference>,
    /// The token's own name.
    pub id: Option<String>,
}

/// What a token lives with, beside its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nothing.
    Account,
    /// A pod, a secret or a node: the resource, and which one.
    Object(&'static str, Reference),
    /// The secret that the token is kept in.
    LegacySecret(String),
}

/// An object that a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its UID; tokens of pods may not know that of their node.
    pub uid: String,
}

/// A token lacks what every token of a service account has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token does not say whose it is")]
pub struct Incomplete;

/// Who tokens that are kept in secrets say they are from.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// What the claims of kept tokens begin with.
const LEGACY_PREFIX: &str = "kubernetes.io/serviceaccount/";

/// What a token can be bound to: the claim and the resource.
pub const BINDINGS: [(&str, &str); 3] = [("pod", "pods"), ("secret", "secrets"), ("node", "nodes")];

impl Account {
    /// From a token that was asked for.
    pub fn from_bound(claims: &Claims) -> Result<Self, Incomplete> {
        let own = claims.get("kubernetes.io").ok_or(Incomplete)?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let account = own.get("serviceaccount").and_then(Reference::read);
        let Reference { name, uid } = account.ok_or(Incomplete)?;
        // A pod's comes first, and its node is no second binding.
        let bound = BINDINGS.iter().find_map(|(claim, resource)| {
            let bound = Reference::read(own.get(claim)?);
            Some(bound.map(|bound| Bound::Object(resource, bound)))
        });
        let read = Self {
            space: space(own.get("tenant"))?,
            tenant_uid: text(own.get("tenantUid")),
            namespace: text(own.get("namespace")).ok_or(Incomplete)?,
            name,
            uid,
            bound: bound.unwrap_or(Some(Bound::Account)).ok_or(Incomplete)?,
            node: own.get("node").and_then(Reference::read),
            id: text(claims.get("jti")),
        };
        read.checked(claims)
    }

    /// From a token that is kept in a secret.
    pub fn from_legacy(claims: &Claims) -> Result<Self, Incomplete> {
        let text = |member: &str| {
            let value = claims.get(&format!("{LEGACY_PREFIX}{member}"))?.as_str()?;
            Some(value.to_owned()).filter(|value| !value.is_empty())
        };
        let read = Self {
            space: space(claims.get(&format!("{LEGACY_PREFIX}tenant")))?,
            tenant_uid: text("tenant.uid"),
            namespace: text("namespace").ok_or(Incomplete)?,
            name: text("service-account.name").ok_or(Incomplete)?,
            uid: text("service-account.uid").ok_or(Incomplete)?,
            bound: Bound::LegacySecret(text("secret.name").ok_or(Incomplete)?),
            node: None,
            id: None,
        };
        read.checked(claims)
    }

    /// What a kept token says.
    pub fn to_legacy_claims(&self, secret: &str) -> Value {
        let mut claims = json!({
            "iss": LEGACY_ISSUER,
            "sub": self.user(),
        });
        let mut put =
            |member: &str, value: &str| claims[format!("{LEGACY_PREFIX}{member}")] = value.into();
        put("namespace", &self.namespace);
        put("secret.name", secret);
        put("service-account.name", &self.name);
        put("service-account.uid", &self.uid);
        if let (Some(tenant), Some(uid)) = (self.space.tenant(), &self.tenant_uid) {
            put("tenant", tenant.as_str());
            put("tenant.uid", uid);
        }
        claims
    }

    /// What the account is called as a user.
    pub fn user(&self) -> String {
        super::AccountName {
            namespace: &self.namespace,
            name: &self.name,
        }
        .user()
    }

    /// Names agree with the subject, and a tenant's token says which tenant's.
    fn checked(self, claims: &Claims) -> Result<Self, Incomplete> {
        let named = !self.uid.is_empty() && claims.text("sub") == Some(&self.user());
        let tied = self.space.is_system() || self.tenant_uid.is_some();
        (named && tied).then_some(self).ok_or(Incomplete)
    }
}

impl Reference {
    fn read(value: &Value) -> Option<Self> {
        let text = |member: &str| value.get(member).and_then(Value::as_str).unwrap_or("");
        Some(Self {
            name: Some(text("name"))
                .filter(|name| !name.is_empty())?
                .to_owned(),
            uid: text("uid").to_owned(),
        })
    }
}

/// The space that a token names. The system's is named by silence only.
fn space(named: Option<&Value>) -> Result<Space, Incomplete> {
    let Some(named) = named else {
        return Ok(Space::System);
    };
    match named.as_str().map(Space::parse) {
        Some(Ok(space @ Space::Tenant(_))) => Ok(space),
        _ => Err(Incomplete),
    }
}
