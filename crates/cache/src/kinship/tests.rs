use super::*;
use insula_core::Revision;
use insula_kinds::kinds;
use std::sync::Arc;

fn space(name: &str) -> Space {
    Space::parse(name).unwrap()
}

fn maps() -> CollectionKey<'static> {
    CollectionKey::BuiltIn(kinds().find("", "v1", "configmaps").unwrap())
}

/// An object of the namespace `n`, whose UID is `u-` and its name.
fn object(name: &str, more: &str) -> Arc<Stored> {
    let json = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","uid":"u-{name}"{more}}}}}"#
    );
    let key = format!("n/{name}");
    Arc::new(Stored::new(key.into(), Revision::new(7), json.as_bytes()))
}

fn owned(name: &str, owners: &[(&str, bool)], more: &str) -> Arc<Stored> {
    let owners: Vec<String> = owners
        .iter()
        .map(|(owner, blocks)| {
            format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","name":"{owner}","uid":"u-{owner}","blockOwnerDeletion":{blocks}}}"#
            )
        })
        .collect();
    object(
        name,
        &format!(r#","ownerReferences":[{}]{more}"#, owners.join(",")),
    )
}

fn event(before: Option<&Arc<Stored>>, now: Option<&Arc<Stored>>) -> Event {
    let change = match (before, now) {
        (None, _) => Change::Added,
        (_, Some(_)) => Change::Modified,
        (_, None) => Change::Deleted,
    };
    let object = now.or(before).unwrap();
    Event::new(
        Revision::new(8),
        change,
        Arc::clone(object),
        before.cloned(),
    )
}

fn note(kinship: &Kinship, at: &str, before: Option<&Arc<Stored>>, now: Option<&Arc<Stored>>) {
    kinship.note(maps(), &space(at), [&event(before, now)]);
}

/// The names of what is taken, all of it.
fn taken(kinship: &Kinship) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((space, nodes)) = kinship.take(2) {
        names.extend(nodes.iter().map(|node| format!("{space}:{}", node.name())));
        kinship.done(&space);
    }
    names
}

const WAITS: &str = r#","deletionTimestamp":"now","finalizers":["foregroundDeletion"]"#;

#[test]
fn what_has_no_owner_and_no_dependents_leaves_no_trace() {
    let kinship = Kinship::default();
    kinship.follow();
    let plain = object("a", "");
    note(&kinship, "t1", None, Some(&plain));
    note(&kinship, "t1", Some(&plain), None);
    assert_eq!(kinship.spaces(), 0);
    assert_eq!(taken(&kinship), [""; 0]);
}

#[test]
fn a_space_is_forgotten_with_the_last_that_has_an_owner() {
    for followed in [true, false] {
        let kinship = Kinship::default();
        if followed {
            kinship.follow();
        }
        let dependent = owned("d", &[("o", false)], "");
        note(&kinship, "t1", None, Some(&dependent));
        assert_eq!(kinship.spaces(), 1);
        let looked_at = taken(&kinship);
        assert_eq!(looked_at, ["t1:d"][..usize::from(followed)]);
        note(&kinship, "t1", Some(&dependent), None);
        taken(&kinship);
        assert_eq!(kinship.spaces(), 0);
    }
}

#[test]
fn an_owner_that_goes_has_its_dependents_looked_at_in_its_own_space_only() {
    let kinship = Kinship::default();
    kinship.follow();
    let owner = object("o", "");
    let others = ["d1", "d2", "d3", "d4", "d5"].map(|name| owned(name, &[("o", false)], ""));
    for at in ["t1", "t2"] {
        for dependent in &others {
            note(&kinship, at, None, Some(dependent));
        }
    }
    taken(&kinship);
    note(&kinship, "t1", Some(&owner), None);
    assert_eq!(
        taken(&kinship),
        ["t1:d1", "t1:d2", "t1:d3", "t1:d4", "t1:d5"]
    );
    let gone = kinship.departed(&space("t1"), "u-o").unwrap();
    assert_eq!(&*gone.key, "n/o");
    assert_eq!(kinship.departed(&space("t2"), "u-o"), None);
}

#[test]
fn a_change_that_is_not_about_owners_is_not_looked_at() {
    let kinship = Kinship::default();
    kinship.follow();
    let dependent = owned("d", &[("o", false)], "");
    note(&kinship, "t1", None, Some(&dependent));
    assert_eq!(taken(&kinship), ["t1:d"]);
    let labelled = owned("d", &[("o", false)], r#","labels":{"a":"b"}"#);
    note(&kinship, "t1", Some(&dependent), Some(&labelled));
    assert_eq!(taken(&kinship), [""; 0]);
    let other = owned("d", &[("p", false)], "");
    note(&kinship, "t1", Some(&labelled), Some(&other));
    assert_eq!(taken(&kinship), ["t1:d"]);
    assert!(!kinship.has_dependents(&space("t1"), "u-o"));
    assert!(kinship.has_dependents(&space("t1"), "u-p"));
}

#[test]
fn an_owner_waits_for_those_that_block_it_and_is_looked_at_when_they_do_not_any_more() {
    let kinship = Kinship::default();
    kinship.follow();
    let (t1, owner) = (space("t1"), object("o", ""));
    let none = HashSet::new();
    let waiting = object("o", WAITS);
    let blocking = owned("b", &[("o", true)], "");
    let free = owned("f", &[("o", false)], "");
    note(&kinship, "t1", None, Some(&blocking));
    note(&kinship, "t1", None, Some(&free));
    taken(&kinship);
    note(&kinship, "t1", Some(&owner), Some(&waiting));
    let mut looked_at = taken(&kinship);
    looked_at.sort();
    assert_eq!(looked_at, ["t1:b", "t1:f", "t1:o"]);
    assert_eq!(kinship.hold(&t1, "u-o", Some("n"), &none), Hold::Plain);
    assert_eq!(
        kinship.hold(&t1, "u-o", Some("elsewhere"), &none),
        Hold::None
    );
    assert_eq!(kinship.hold(&t1, "u-o", None, &none), Hold::Plain);
    let gone = HashSet::from([Node::new(maps(), &blocking)]);
    assert_eq!(kinship.hold(&t1, "u-o", None, &gone), Hold::None);
    let blocking_too = owned("b", &[("o", true)], WAITS);
    note(&kinship, "t1", Some(&blocking), Some(&blocking_too));
    assert_eq!(kinship.hold(&t1, "u-o", Some("n"), &none), Hold::Waiting);
    taken(&kinship);
    let unblocked = owned("b", &[("o", false)], WAITS);
    note(&kinship, "t1", Some(&blocking_too), Some(&unblocked));
    assert_eq!(kinship.hold(&t1, "u-o", Some("n"), &none), Hold::None);
    let mut looked_at = taken(&kinship);
    looked_at.sort();
    assert_eq!(looked_at, ["t1:b", "t1:o"]);
}

#[test]
fn spaces_take_turns() {
    let kinship = Kinship::default();
    kinship.follow();
    for name in ["a", "b", "c", "d", "e"] {
        note(
            &kinship,
            "t1",
            None,
            Some(&owned(name, &[("o", false)], "")),
        );
    }
    note(&kinship, "t2", None, Some(&owned("x", &[("o", false)], "")));
    assert_eq!(
        taken(&kinship),
        ["t1:a", "t1:b", "t2:x", "t1:c", "t1:d", "t1:e"]
    );
}

#[test]
fn one_space_is_looked_at_by_one_at_a_time() {
    let kinship = Kinship::default();
    kinship.follow();
    note(&kinship, "t1", None, Some(&owned("a", &[("o", false)], "")));
    let (at, _) = kinship.take(9).unwrap();
    note(&kinship, "t1", None, Some(&owned("b", &[("o", false)], "")));
    assert_eq!(kinship.take(9), None);
    kinship.done(&at);
    assert_eq!(taken(&kinship), ["t1:b"]);
}

#[test]
fn who_begins_to_follow_is_told_of_everything_that_is_there() {
    let kinship = Kinship::default();
    let (t1, waiting) = (space("t1"), object("w", WAITS));
    kinship.load(maps(), &t1, &owned("d", &[("o", false), ("p", false)], ""));
    kinship.load(maps(), &t1, &waiting);
    kinship.load(maps(), &t1, &object("plain", ""));
    assert_eq!(taken(&kinship), [""; 0]);
    kinship.follow();
    let mut all = taken(&kinship);
    all.sort();
    all.dedup();
    assert_eq!(all, ["t1:d", "t1:w"]);
}

#[test]
fn what_was_parked_is_looked_at_when_its_space_serves_other_kinds() {
    let kinship = Kinship::default();
    kinship.follow();
    for at in ["t1", "t2"] {
        note(&kinship, at, None, Some(&owned("d", &[("o", false)], "")));
        let (at, nodes) = kinship.take(9).unwrap();
        kinship.park(&at, nodes[0].clone());
        kinship.done(&at);
    }
    kinship.serve_anew(&space("t1"));
    assert_eq!(taken(&kinship), ["t1:d"]);
    kinship.all_serve_anew(None);
    assert_eq!(taken(&kinship), ["t2:d"]);
    kinship.all_serve_anew(Some("u-o"));
    let mut both = taken(&kinship);
    both.sort();
    assert_eq!(both, ["t1:d", "t2:d"]);
}

#[test]
fn a_space_that_is_closed_is_forgotten_whatever_was_to_be_done_there() {
    let kinship = Kinship::default();
    kinship.follow();
    note(&kinship, "t1", None, Some(&owned("d", &[("o", false)], "")));
    kinship.close(&space("t1"));
    assert_eq!(taken(&kinship), [""; 0]);
    assert_eq!(kinship.spaces(), 0);
}
