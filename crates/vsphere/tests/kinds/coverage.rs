//! Every requirement has a test, and `docs/requirements/vsphere.md` lists exactly these tests.

use std::collections::BTreeSet;

use insula_testkit::requirements::Requirements;

const TESTED: Requirements = Requirements {
    sources: &[
        "crates/capi/src",
        "crates/identity/src",
        "crates/operator/src",
        "crates/vsphere/src",
        "crates/vsphere/tests",
        "crates/relocate/src",
        "crates/relocate/tests",
        "e2e/tests/cluster_api.rs",
    ],
    prefixes: &["g", "s", "fr", "a", "c", "cr", "m", "r", "t", "x", "o", "u"],
};

/// The number of requirements with each prefix.
const REQUIREMENTS: [(&str, u32); 10] = [
    ("g", 3),
    ("s", 3),
    ("fr", 5),
    ("a", 6),
    ("c", 8),
    ("cr", 4),
    ("m", 3),
    ("r", 1),
    ("t", 4),
    ("x", 9),
];

#[test]
fn every_requirement_has_a_test() {
    let tests = TESTED.tests().unwrap();
    let covered: BTreeSet<&str> = tests.iter().flat_map(|name| TESTED.of(name)).collect();
    let wanted = REQUIREMENTS.iter().flat_map(|(prefix, count)| {
        let numbers = 1..=*count;
        numbers.map(move |number| format!("{prefix}{number}"))
    });
    let lacking: Vec<String> = wanted
        .filter(|requirement| !covered.contains(requirement.as_str()))
        .collect();
    assert_eq!(lacking, Vec::<String>::new());
}

#[test]
fn page_lists_exactly_the_tests() {
    let page = include_str!("../../../../docs/requirements/vsphere.md");
    assert_eq!(TESTED.named_in(page), TESTED.tests().unwrap());
}
