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

/// An object of the namespace `n` with the UID `u-` and its name.
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

fn note(
    owner_graph: &OwnerGraph,
    at: &str,
    before: Option<&Arc<Stored>>,
    now: Option<&Arc<Stored>>,
) {
    owner_graph.note(maps(), &space(at), [&event(before, now)]);
}

/// The names of what is taken, all of it.
fn taken(owner_graph: &OwnerGraph) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((space, nodes)) = owner_graph.take(2) {
        names.extend(nodes.iter().map(|node| format!("{space}:{}", node.name())));
        owner_graph.done(&space);
    }
    names
}

const WAITS: &str = r#","deletionTimestamp":"now","finalizers":["foregroundDeletion"]"#;

#[test]
fn what_has_no_owner_and_no_graphleaves_no_trace() {
    let owner_graph = OwnerGraph::default();
    owner_graph.follow();
    let plain = object("a", "");
    note(&owner_graph, "t1", None, Some(&plain));
    note(&owner_graph, "t1", Some(&plain), None);
    assert_eq!(owner_graph.spaces(), 0);
    assert_eq!(taken(&owner_graph), [""; 0]);
}

#[test]
fn a_space_is_forgotten_with_the_last_that_has_an_owner() {
    for followed in [true, false] {
        let owner_graph = OwnerGraph::default();
        if followed {
            owner_graph.follow();
        }
        let dependent = owned("d", &[("o", false)], "");
        note(&owner_graph, "t1", None, Some(&dependent));
        assert_eq!(owner_graph.spaces(), 1);
        let looked_at = taken(&owner_graph);
        assert_eq!(looked_at, ["t1:d"][..usize::from(followed)]);
        note(&owner_graph, "t1", Some(&dependent), None);
        taken(&owner_graph);
        assert_eq!(owner_graph.spaces(), 0);
    }
}

#[test]
fn an_owner_that_goes_has_its_graphlooked_at_in_its_own_space_only() {
    let owner_graph = OwnerGraph::default();
    owner_graph.follow();
    let owner = object("o", "");
    let others = ["d1", "d2", "d3", "d4", "d5"].map(|name| owned(name, &[("o", false)], ""));
    for at in ["t1", "t2"] {
        for dependent in &others {
            note(&owner_graph, at, None, Some(dependent));
        }
    }
    taken(&owner_graph);
    note(&owner_graph, "t1", Some(&owner), None);
    assert_eq!(
        taken(&owner_graph),
        ["t1:d1", "t1:d2", "t1:d3", "t1:d4", "t1:d5"]
    );
    let gone = owner_graph.deleted_owner(&space("t1"), "u-o").unwrap();
    assert_eq!(&*gone.key, "n/o");
    assert_eq!(owner_graph.deleted_owner(&space("t2"), "u-o"), None);
}

#[test]
fn a_change_that_is_not_about_owners_is_not_looked_at() {
    let owner_graph = OwnerGraph::default();
    owner_graph.follow();
    let dependent = owned("d", &[("o", false)], "");
    note(&owner_graph, "t1", None, Some(&dependent));
    assert_eq!(taken(&owner_graph), ["t1:d"]);
    let labelled = owned("d", &[("o", false)], r#","labels":{"a":"b"}"#);
    note(&owner_graph, "t1", Some(&dependent), Some(&labelled));
    assert_eq!(taken(&owner_graph), [""; 0]);
    let other = owned("d", &[("p", false)], "");
    note(&owner_graph, "t1", Some(&labelled), Some(&other));
    assert_eq!(taken(&owner_graph), ["t1:d"]);
    assert!(!owner_graph.has_dependents(&space("t1"), "u-o"));
    assert!(owner_graph.has_dependents(&space("t1"), "u-p"));
}

#[test]
fn an_owner_waits_for_those_that_block_it_and_is_looked_at_when_they_do_not_any_more() {
    let owner_graph = OwnerGraph::default();
    owner_graph.follow();
    let (t1, owner) = (space("t1"), object("o", ""));
    let none = HashSet::new();
    let waiting = object("o", WAITS);
    let blocking = owned("b", &[("o", true)], "");
    let free = owned("f", &[("o", false)], "");
    note(&owner_graph, "t1", None, Some(&blocking));
    note(&owner_graph, "t1", None, Some(&free));
    taken(&owner_graph);
    note(&owner_graph, "t1", Some(&owner), Some(&waiting));
    let mut looked_at = taken(&owner_graph);
    looked_at.sort();
    assert_eq!(looked_at, ["t1:b", "t1:f", "t1:o"]);
    assert_eq!(owner_graph.hold(&t1, "u-o", Some("n"), &none), Hold::Plain);
    assert_eq!(
        owner_graph.hold(&t1, "u-o", Some("elsewhere"), &none),
        Hold::None
    );
    assert_eq!(owner_graph.hold(&t1, "u-o", None, &none), Hold::Plain);
    let gone = HashSet::from([Node::new(maps(), &blocking)]);
    assert_eq!(owner_graph.hold(&t1, "u-o", None, &gone), Hold::None);
    let blocking_too = owned("b", &[("o", true)], WAITS);
    note(&owner_graph, "t1", Some(&blocking), Some(&blocking_too));
    assert_eq!(
        owner_graph.hold(&t1, "u-o", Some("n"), &none),
        Hold::Waiting
    );
    taken(&owner_graph);
    let unblocked = owned("b", &[("o", false)], WAITS);
    note(&owner_graph, "t1", Some(&blocking_too), Some(&unblocked));
    assert_eq!(owner_graph.hold(&t1, "u-o", Some("n"), &none), Hold::None);
    let mut looked_at = taken(&owner_graph);
    looked_at.sort();
    assert_eq!(looked_at, ["t1:b", "t1:o"]);
}

#[test]
fn spaces_take_turns() {
    let owner_graph = OwnerGraph::default();
    owner_graph.follow();
    for name in ["a", "b", "c", "d", "e"] {
        note(
            &owner_graph,
            "t1",
            None,
            Some(&owned(name, &[("o", false)], "")),
        );
    }
    note(
        &owner_graph,
        "t2",
        None,
        Some(&owned("x", &[("o", false)], "")),
    );
    assert_eq!(
        taken(&owner_graph),
        ["t1:a", "t1:b", "t2:x", "t1:c", "t1:d", "t1:e"]
    );
}

#[test]
fn one_space_is_looked_at_by_one_at_a_time() {
    let owner_graph = OwnerGraph::default();
    owner_graph.follow();
    note(
        &owner_graph,
        "t1",
        None,
        Some(&owned("a", &[("o", false)], "")),
    );
    let (at, _) = owner_graph.take(9).unwrap();
    note(
        &owner_graph,
        "t1",
        None,
        Some(&owned("b", &[("o", false)], "")),
    );
    assert_eq!(owner_graph.take(9), None);
    owner_graph.done(&at);
    assert_eq!(taken(&owner_graph), ["t1:b"]);
}

#[test]
fn who_begins_to_follow_is_told_of_everything_that_is_there() {
    let owner_graph = OwnerGraph::default();
    let (t1, waiting) = (space("t1"), object("w", WAITS));
    owner_graph.load(maps(), &t1, &owned("d", &[("o", false), ("p", false)], ""));
    owner_graph.load(maps(), &t1, &waiting);
    owner_graph.load(maps(), &t1, &object("plain", ""));
    assert_eq!(taken(&owner_graph), [""; 0]);
    owner_graph.follow();
    let mut all = taken(&owner_graph);
    all.sort();
    all.dedup();
    assert_eq!(all, ["t1:d", "t1:w"]);
}

#[test]
fn what_was_parked_is_looked_at_when_its_space_serves_other_kinds() {
    let owner_graph = OwnerGraph::default();
    owner_graph.follow();
    for at in ["t1", "t2"] {
        note(
            &owner_graph,
            at,
            None,
            Some(&owned("d", &[("o", false)], "")),
        );
        let (at, nodes) = owner_graph.take(9).unwrap();
        owner_graph.park(&at, nodes[0].clone());
        owner_graph.done(&at);
    }
    owner_graph.note_apis(&space("t1"));
    assert_eq!(taken(&owner_graph), ["t1:d"]);
    owner_graph.note_all_apis(None);
    assert_eq!(taken(&owner_graph), ["t2:d"]);
    owner_graph.note_all_apis(Some("u-o"));
    let mut both = taken(&owner_graph);
    both.sort();
    assert_eq!(both, ["t1:d", "t2:d"]);
}

#[test]
fn a_space_that_is_closed_is_forgotten_whatever_was_to_be_done_there() {
    let owner_graph = OwnerGraph::default();
    owner_graph.follow();
    note(
        &owner_graph,
        "t1",
        None,
        Some(&owned("d", &[("o", false)], "")),
    );
    owner_graph.close(&space("t1"));
    assert_eq!(taken(&owner_graph), [""; 0]);
    assert_eq!(owner_graph.spaces(), 0);
}
