//! Labels that a host must have.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::hosts::selector::{InvalidSelector, Selector};

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Result<Selector, InvalidSelector> {
    let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
    Selector::new(&BTreeMap::new(), [(key, operator, values.as_slice())])
}

#[test]
fn expressions_select_by_operator_in_any_case() {
    let [none, red, blue, five, word] = [
        &[][..],
        &[("k", "red")],
        &[("k", "blue"), ("other", "x")],
        &[("k", "5")],
        &[("k", "five")],
    ]
    .map(labels);
    let all = [&none, &red, &blue, &five, &word];
    for (operator, values, text, expected) in [
        (
            "in",
            &["red", "blue"][..],
            "k in (red,blue)",
            [false, true, true, false, false],
        ),
        (
            "In",
            &["red"],
            "k in (red)",
            [false, true, false, false, false],
        ),
        (
            "=",
            &["red"],
            "k in (red)",
            [false, true, false, false, false],
        ),
        (
            "==",
            &["red"],
            "k in (red)",
            [false, true, false, false, false],
        ),
        (
            "NotIn",
            &["red", "5"],
            "k notin (red,5)",
            [true, false, true, false, true],
        ),
        (
            "!=",
            &["red"],
            "k notin (red)",
            [true, false, true, true, true],
        ),
        ("Exists", &[], "k", [false, true, true, true, true]),
        ("!", &[], "!k", [true, false, false, false, false]),
        ("Gt", &["4"], "k>4", [false, false, false, true, false]),
        ("gt", &["5"], "k>5", [false, false, false, false, false]),
        ("LT", &["6"], "k<6", [false, false, false, true, false]),
        ("lt", &["-1"], "k<-1", [false, false, false, false, false]),
    ] {
        let selector = expression("k", operator, values).unwrap();
        assert_eq!(selector.to_string(), text);
        let selected = all.map(|labels| selector.selects(Some(labels)));
        assert_eq!(selected, expected, "{operator} {values:?}");
        assert_eq!(selector.selects(None), expected[0]);
    }
}

#[test]
fn invalid_expressions_are_errors() {
    let long = "a".repeat(64);
    for (key, operator, values, expected) in [
        (
            "k",
            "DoesNotExist",
            &[][..],
            "hostSelector has operator \"DoesNotExist\" for \"k\", which is none of !, =, ==, in, \
             !=, notin, exists, gt and lt",
        ),
        (
            "k",
            "",
            &[],
            "hostSelector has operator \"\" for \"k\", which is none of !, =, ==, in, !=, notin, \
             exists, gt and lt",
        ),
        (
            "k",
            "In",
            &[],
            "hostSelector has 0 values for \"k\", and operator \"In\" needs at least one",
        ),
        (
            "k",
            "notin",
            &[],
            "hostSelector has 0 values for \"k\", and operator \"notin\" needs at least one",
        ),
        (
            "k",
            "=",
            &["a", "b"],
            "hostSelector has 2 values for \"k\", and operator \"=\" needs one",
        ),
        (
            "k",
            "exists",
            &["a"],
            "hostSelector has 1 values for \"k\", and operator \"exists\" needs none",
        ),
        (
            "k",
            "!",
            &["a"],
            "hostSelector has 1 values for \"k\", and operator \"!\" needs none",
        ),
        (
            "k",
            "gt",
            &["1", "2"],
            "hostSelector has 2 values for \"k\", and operator \"gt\" needs one",
        ),
        (
            "k",
            "gt",
            &["1.5"],
            "hostSelector compares \"k\" with \"1.5\", which is no integer",
        ),
        (
            "k k",
            "exists",
            &[],
            "hostSelector has the key \"k k\", which no label can have",
        ),
        (
            "UPPER.example/k",
            "exists",
            &[],
            "hostSelector has the key \"UPPER.example/k\", which no label can have",
        ),
        (
            "a/",
            "exists",
            &[],
            "hostSelector has the key \"a/\", which no label can have",
        ),
        (
            "k",
            "in",
            &["a,b"],
            "hostSelector has the value \"a,b\" for \"k\", which no label can have",
        ),
        (
            "k",
            "in",
            &["-a"],
            "hostSelector has the value \"-a\" for \"k\", which no label can have",
        ),
    ] {
        let error = expression(key, operator, values).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let value = expression("k", "=", &[&long]);
    assert!(matches!(value, Err(InvalidSelector::Value { .. })));
}

#[test]
fn all_requirements_count_and_none_selects_all() {
    let all = Selector::default();
    assert!(all.selects(None) && all.selects(Some(&labels(&[("a", "b")]))));
    assert_eq!(all.to_string(), "");
    let values = ["2".to_owned()];
    let selector = Selector::new(
        &labels(&[("a", "1"), ("example.com/b", "")]),
        [("c", "in", &values[..]), ("d", "!", &[])],
    );
    let selector = selector.unwrap();
    assert_eq!(
        selector.to_string(),
        "a in (1),example.com/b in (),c in (2),!d"
    );
    let full = [("a", "1"), ("example.com/b", ""), ("c", "2")];
    assert!(selector.selects(Some(&labels(&full))));
    for at in 0..full.len() {
        let mut less = full.to_vec();
        less.remove(at);
        assert!(!selector.selects(Some(&labels(&less))));
    }
    let more = [full.as_slice(), &[("d", "x")]].concat();
    assert!(!selector.selects(Some(&labels(&more))));
}

proptest! {
    #[test]
    fn negated_operators_select_the_others(value in "[ab]?", values in prop::collection::vec("[ab]", 1..3)) {
        let labels = labels(&[("k", &value)]);
        let values: Vec<_> = values.iter().map(String::as_str).collect();
        let within = expression("k", "in", &values).unwrap();
        let without = expression("k", "notin", &values).unwrap();
        prop_assert_ne!(within.selects(Some(&labels)), without.selects(Some(&labels)));
    }
}
