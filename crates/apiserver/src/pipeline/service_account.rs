//! Service accounts: their names and tokens.

mod claims;
mod issuer;
mod keys;
mod token_uses;
mod verify;

pub use insula_access::jwt::NotASigningKey;
use insula_core::{CredentialRef, Extra, Principal, Proof, Space, TenantBinding};

pub use self::claims::{Account, Bound};
pub use self::issuer::{Issuer, IssuerUrls, tenant_path};
pub use self::keys::{CurrentKeys, KeysError, SigningKey, SigningKeys};
pub use self::token_uses::{LAST_USED, TokenUse, TokenUses, day};
pub use self::verify::{Holder, TokenError, Verifier, VerifyError};
use crate::registry::{Address, Registry};
use insula_kinds::core_kind;

/// The name of a service account, which is encoded in its user name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountName<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

/// The key of the token in a Secret.
pub const TOKEN_KEY: &str = "token";

/// Issues and verifies tokens of service accounts.
#[derive(Debug)]
pub struct Accounts {
    /// Signs tokens.
    pub issuer: Issuer,
    /// Verifies tokens.
    pub verifier: Verifier,
    /// The external URL of the server.
    pub url: String,
}

impl Accounts {
    /// Creates the accounts of an issuer, on the server at `url`.
    pub fn new(issuer: Issuer, url: &str) -> Self {
        Self {
            verifier: Verifier::new(&issuer),
            issuer,
            url: url.to_owned(),
        }
    }

    /// Returns the issuer of a space's tokens; `None` if there is no such space.
    pub fn issuer_of(&self, registry: &Registry, space: &Space) -> Option<String> {
        if space.is_system() {
            return Some(self.issuer.urls().plain().to_owned());
        }
        let state = registry.cache().space_state(space)?;
        Some(self.issuer.urls().of_space(space, &state.uid))
    }

    /// Returns the audiences that mean this server in a space.
    pub fn audiences_of(&self, registry: &Registry, space: &Space) -> Vec<String> {
        let plain = self.issuer.urls().plain().to_owned();
        let mut audiences: Vec<String> = self.issuer_of(registry, space).into_iter().collect();
        if !audiences.contains(&plain) {
            audiences.push(plain);
        }
        audiences
    }
}

const PREFIX: &str = "system:serviceaccount:";

/// The group of all service accounts of a space.
const ALL: &str = "system:serviceaccounts";

impl<'a> AccountName<'a> {
    /// Returns the principal that a credential of the account authenticates.
    pub fn holder(&self, space: &Space, credential: CredentialRef) -> Principal {
        Principal {
            user: self.user(),
            uid: None,
            groups: self.groups().to_vec(),
            extra: Extra::new(),
            home: space.clone(),
            tenant_binding: TenantBinding::Name,
            proof: Proof::ServiceAccount,
            credential,
            impersonator: None,
        }
    }

    /// Parses the user name of a service account.
    pub fn parse(user: &'a str) -> Option<Self> {
        let (namespace, name) = user.strip_prefix(PREFIX)?.split_once(':')?;
        let plain = |text: &str| !text.is_empty() && !text.contains([':', '/']);
        (plain(namespace) && plain(name)).then_some(Self { namespace, name })
    }

    /// Returns the user name. It omits the tenant: a space looks like a cluster from inside.
    pub fn user(self) -> String {
        format!("{PREFIX}{}:{}", self.namespace, self.name)
    }

    /// Returns the implicit groups.
    pub fn groups(self) -> [String; 2] {
        [ALL.to_owned(), format!("{ALL}:{}", self.namespace)]
    }
}

/// Whether the principal's service account still exists; `true` for other principals.
pub fn account_exists(registry: &Registry, principal: &Principal) -> bool {
    if principal.proof != Proof::ServiceAccount {
        return true;
    }
    let Some(account) = AccountName::parse(&principal.user) else {
        return false;
    };
    let address = Address {
        kind: core_kind("serviceaccounts").into(),
        space: principal.home.clone(),
        namespace: Some(account.namespace.to_owned()),
        name: account.name.to_owned(),
    };
    registry
        .cached(&address)
        .is_some_and(|found| found.uid() == principal.uid.as_deref() && !found.is_terminating())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_name_of_an_account_contains_namespace_and_name() {
        let account = AccountName::parse("system:serviceaccount:ns:robot").unwrap();
        assert_eq!((account.namespace, account.name), ("ns", "robot"));
        assert_eq!(account.user(), "system:serviceaccount:ns:robot");
        assert_eq!(
            account.groups(),
            ["system:serviceaccounts", "system:serviceaccounts:ns"]
        );
        for other in [
            "",
            "robot",
            "system:serviceaccount:",
            "system:serviceaccount:ns",
            "system:serviceaccount::robot",
            "system:serviceaccount:ns:",
            "system:serviceaccount:ns:a:b",
            "system:serviceaccount:a/b:c",
            "system:serviceaccounts:ns:robot",
        ] {
            assert_eq!(AccountName::parse(other), None, "{other}");
        }
    }
}
