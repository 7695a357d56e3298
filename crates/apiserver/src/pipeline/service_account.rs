//! Service accounts: what they are called, and their tokens.

mod claims;
mod issuer;
mod token_uses;
mod verify;

pub use insula_access::jwt::NotASigningKey;
use insula_core::{Principal, Proof};

pub use self::claims::{Account, Bound};
pub use self::issuer::Issuer;
pub use self::token_uses::{LAST_USED, TokenUse, TokenUses, day};
pub use self::verify::{Holder, TokenError, Verifier, VerifyError};
use crate::registry::{Address, Registry};
use insula_kinds::core_kind;

/// What a service account is called as a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountName<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name in there.
    pub name: &'a str,
}

/// Where a secret keeps a token.
pub const TOKEN_KEY: &str = "token";

/// What issues tokens of service accounts, and believes them.
#[derive(Debug)]
pub struct Accounts {
    /// Signs.
    pub issuer: Issuer,
    /// Verifies.
    pub verifier: Verifier,
    /// Where others find the server.
    pub url: String,
}

impl Accounts {
    /// Of this issuer, on the server at `url`.
    pub fn new(issuer: Issuer, url: &str) -> Self {
        Self {
            verifier: Verifier::new(&issuer),
            issuer,
            url: url.to_owned(),
        }
    }
}

const PREFIX: &str = "system:serviceaccount:";

/// The group of all service accounts of a space.
const ALL: &str = "system:serviceaccounts";

impl<'a> AccountName<'a> {
    /// The account whose user name this is.
    pub fn parse(user: &'a str) -> Option<Self> {
        let (namespace, name) = user.strip_prefix(PREFIX)?.split_once(':')?;
        let plain = |text: &str| !text.is_empty() && !text.contains([':', '/']);
        (plain(namespace) && plain(name)).then_some(Self { namespace, name })
    }

    /// The user name. It says nothing of the tenant: inside a space everything is as in a
    /// cluster.
    pub fn user(self) -> String {
        format!("{PREFIX}{}:{}", self.namespace, self.name)
    }

    /// The groups that the server gives it.
    pub fn groups(self) -> [String; 2] {
        [ALL.to_owned(), format!("{ALL}:{}", self.namespace)]
    }
}

/// Whether the account of a principal that is one is still there.
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
    fn an_account_is_called_by_its_namespace_and_name_and_nothing_else_is_one() {
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
