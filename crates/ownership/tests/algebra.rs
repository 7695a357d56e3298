//! Sets against a model: the plain set of the texts of their paths.

use std::collections::BTreeSet;

use insula_kinds::Value;
use insula_ownership::{Element, Path, Set};
use proptest::prelude::*;
use serde_json::json;

type Model = BTreeSet<Vec<usize>>;

/// A small number of elements of each type, so that sets overlap.
fn element(at: usize) -> Element {
    let key = |members: &[(&str, Value)]| {
        let own = |(name, value): &(&str, Value)| (Box::from(*name), value.clone());
        Element::Key(members.iter().map(own).collect())
    };
    match at {
        0 => Element::Field("a".into()),
        1 => Element::Field("b".into()),
        2 => key(&[("port", json!(80)), ("protocol", json!("TCP"))]),
        3 => key(&[("port", json!(443)), ("protocol", json!("TCP"))]),
        4 => Element::Value(json!("a")),
        5 => Element::Value(json!(10)),
        6 => Element::Value(json!(9)),
        _ => Element::Index(at as i64),
    }
}

fn path(places: &[usize]) -> Vec<Element> {
    places.iter().map(|at| element(*at)).collect()
}

fn set(model: &Model) -> Set {
    let mut set = Set::default();
    for places in model {
        set.insert(&path(places));
    }
    set
}

fn members(set: &Set) -> BTreeSet<String> {
    set.paths().iter().map(Path::to_string).collect()
}

fn texts<'a>(model: impl IntoIterator<Item = &'a Vec<usize>>) -> BTreeSet<String> {
    let text = |places: &Vec<usize>| Path(path(places)).to_string();
    model.into_iter().map(text).collect()
}

fn models() -> impl Strategy<Value = Model> {
    let path = proptest::collection::vec(0usize..9, 1..4);
    proptest::collection::btree_set(path, 0..24)
}

proptest! {
    #[test]
    fn sets_are_what_their_paths_are(one in models(), two in models()) {
        let (a, b) = (set(&one), set(&two));
        prop_assert_eq!(members(&a), texts(&one));
        prop_assert_eq!(a.len(), one.len());
        prop_assert_eq!(a.is_empty(), one.is_empty());
        prop_assert_eq!(members(&a.union(&b)), texts(one.union(&two)));
        prop_assert_eq!(members(&a.intersection(&b)), texts(one.intersection(&two)));
        prop_assert_eq!(members(&a.difference(&b)), texts(one.difference(&two)));
        prop_assert_eq!(a.intersects(&b), !one.is_disjoint(&two));
        prop_assert_eq!(a.is_subset(&b), one.is_subset(&two));
        prop_assert!(a.intersection(&b).is_subset(&b) && a.is_subset(&a));
        let above = |places: &&Vec<usize>| {
            !(1..=places.len()).any(|end| two.contains(&places[..end]))
        };
        prop_assert_eq!(members(&a.recursive_difference(&b)), texts(one.iter().filter(above)));
        let below = |places: &&Vec<usize>| {
            !one.iter().any(|other| other.len() > places.len() && other.starts_with(places))
        };
        prop_assert_eq!(members(&a.leaves()), texts(one.iter().filter(below)));
        for places in one.iter().chain(&two) {
            prop_assert_eq!(a.has(&path(places)), one.contains(places));
        }
    }

    #[test]
    fn a_set_has_one_form_however_it_came_about(one in models(), two in models()) {
        let (a, b) = (set(&one), set(&two));
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(&Set::parse(&a.text()), &Ok(a.clone()));
        prop_assert_eq!(&Set::read(&a.write()), &Ok(a.clone()));
        let both: Model = one.union(&two).cloned().collect();
        prop_assert_eq!(a.union(&b).text(), set(&both).text());
    }

    #[test]
    fn no_text_makes_it_panic(text in "[{}\\[\\]\":,.fkvi0-9a\\\\ ]{0,40}") {
        if let Ok(set) = Set::parse(&text) {
            prop_assert_eq!(Set::parse(&set.text()), Ok(set));
        }
    }
}
