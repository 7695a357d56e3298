//! The claims of service account tokens.

use insula_access::jwt::Claims;
use insula_core::Space;
use insula_kinds::Value;
use serde_json::json;

/// The account of a token, and the object that the token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The space of the account.
    pub space: Space,
    /// The UID of the space's tenant, because names are reused.
    pub tenant_uid: Option<String>,
    /// The account's namespace.
    pub namespace: String,
    /// The account's name.
    pub name: String,
    /// The account's UID.
    pub uid: String,
    /// The object that the token is bound to.
    pub bound: Bound,
    /// The node of the bound pod.
    pub node: Option<Reference>,
    /// The token's ID.
    pub id: Option<String>,
}

/// The object that a token is bound to, beside its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Only the account.
    Account,
    /// A pod, a secret or a node: its resource and reference.
    Object(&'static str, Reference),
    /// The name of the Secret that stores a legacy token.
    LegacySecret(String),
}

/// An object that a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The name.
    pub name: String,
    /// The UID, which may be empty for the node of a pod.
    pub uid: String,
}

/// A token lacks required claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token does not say whose it is")]
pub struct Incomplete;

/// The issuer of legacy tokens, which are stored in Secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The prefix of the claims of legacy tokens.
const LEGACY_PREFIX: &str = "kubernetes.io/serviceaccount/";

/// The claims and resources of objects that a token can be bound to.
pub const BINDINGS: [(&str, &str); 3] = [("pod", "pods"), ("secret", "secrets"), ("node", "nodes")];

impl Account {
    /// Parses the claims of a token from a TokenRequest.
    pub fn from_bound(claims: &Claims) -> Result<Self, Incomplete> {
        let own = claims.get("kubernetes.io").ok_or(Incomplete)?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let account = own.get("serviceaccount").and_then(Reference::read);
        let Reference { name, uid } = account.ok_or(Incomplete)?;
        // The pod comes first: its node is not a second binding.
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

    /// Parses the claims of a legacy token.
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

    /// Returns the claims of a legacy token in a Secret.
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

    /// Returns the user name of the account.
    pub fn user(&self) -> String {
        super::AccountName {
            namespace: &self.namespace,
            name: &self.name,
        }
        .user()
    }

    /// Checks that the names match the subject, and that a tenant's token has the tenant's UID.
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

/// Returns the space that a token names. Only a missing claim means the system space.
fn space(named: Option<&Value>) -> Result<Space, Incomplete> {
    let Some(named) = named else {
        return Ok(Space::System);
    };
    match named.as_str().map(Space::parse) {
        Some(Ok(space @ Space::Tenant(_))) => Ok(space),
        _ => Err(Incomplete),
    }
}
