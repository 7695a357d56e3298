//! The wall between the spaces.

use insula_core::{Principal, Spaces};

/// Whether a principal may enter these spaces at all.
///
/// The law: a principal of the system may enter every space and all of them at once. A
/// tenant's principal may enter its own space and nothing else: not another tenant's, not
/// the system's, and not all spaces, even when its own is the only one. Names and groups
/// change nothing about it; what may be done inside is decided after.
pub fn may_enter(principal: &Principal, spaces: &Spaces) -> bool {
    match spaces {
        Spaces::All => principal.is_system(),
        Spaces::One(space) => principal.is_system() || principal.home == *space,
    }
}

#[cfg(test)]
mod tests {
    use insula_core::{Extra, MASTERS, Proof, Space, Tie};

    use super::*;

    #[test]
    fn a_tenant_enters_its_own_space_and_the_system_enters_all() {
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
                // No name and no group opens a wall.
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
                    tie: Tie::Name,
                    proof: Proof::Certificate,
                };
                let places = [one("system"), one("t1"), one("t2"), Spaces::All];
                let found = places.map(|spaces| may_enter(&principal, &spaces));
                assert_eq!(found, entered, "{principal:?}");
            }
        }
    }
}
