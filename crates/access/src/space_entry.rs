//! Which spaces a principal may enter.

use insula_core::{Principal, Spaces};

/// Reports whether a principal may enter these spaces at all.
///
/// A principal of the system may enter every space, and all of them at once. A tenant's
/// principal may enter its own space only: not another tenant's, not the system's, and not
/// all spaces, even when its own is the only one. User names and groups have no influence.
/// RBAC inside the space is evaluated afterwards.
pub fn may_enter(principal: &Principal, spaces: &Spaces) -> bool {
    match spaces {
        Spaces::All => principal.is_system(),
        Spaces::One(space) => principal.is_system() || principal.home == *space,
    }
}

#[cfg(test)]
mod tests {
    use insula_core::{CredentialRef, Extra, MASTERS, Proof, Space, TenantBinding};

    use super::*;

    #[test]
    fn tenant_enters_its_own_space_and_system_enters_all() {
        let space = |name: &str| Space::parse(name).unwrap();
        let one = |name| Spaces::One(space(name));
        for (home, entered) in [
            ("system", [true, true, true, true]),
            ("t1", [false, true, false, false]),
            ("t2", [false, false, true, false]),
            ("t3", [false, false, false, false]),
        ] {
            for (user, groups) in [
                ("alice", vec![]),
                // User names and groups grant no entry.
                ("system:admin", vec![MASTERS.to_owned()]),
                (
                    "t1",
                    vec!["tenant:t1".to_owned(), "tenant:system".to_owned()],
                ),
            ] {
                let principal = Principal {
                    user: user.to_owned(),
                    uid: None,
                    groups,
                    extra: Extra::new(),
                    home: space(home),
                    tenant_binding: TenantBinding::Name,
                    proof: Proof::Certificate,
                    credential: CredentialRef::default(),
                    impersonator: None,
                };
                let places = [one("system"), one("t1"), one("t2"), Spaces::All];
                let found = places.map(|spaces| may_enter(&principal, &spaces));
                assert_eq!(found, entered, "{principal:?}");
            }
        }
    }
}
