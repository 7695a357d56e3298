//! Every requirement has a test, and `docs/requirements/vsphere.md` lists exactly these tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The sources with numbered tests, relative to the root of the repository.
const SOURCES: [&str; 8] = [
    "crates/capi/src",
    "crates/identity/src",
    "crates/operator/src",
    "crates/vsphere/src",
    "crates/vsphere/tests",
    "crates/relocate/src",
    "crates/relocate/tests",
    "e2e/tests/cluster_api.rs",
];

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

/// Returns the names of all tests that begin with a requirement.
fn tests() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths: Vec<PathBuf> = SOURCES.iter().map(|source| root.join(source)).collect();
    let mut names = BTreeSet::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap().flatten();
            paths.extend(entries.map(|entry| entry.path()));
        } else if path.extension().is_some_and(|found| found == "rs") {
            names.extend(names_in(&std::fs::read_to_string(path).unwrap()));
        }
    }
    names
}

fn names_in(source: &str) -> impl Iterator<Item = String> {
    let functions = source.split("fn ").skip(1);
    let names = functions.filter_map(|rest| Some(rest.split_once('(')?.0));
    names
        .filter(|name| requirements(name).next().is_some())
        .map(str::to_owned)
}

/// Returns the requirements that a test's name begins with.
fn requirements(test: &str) -> impl Iterator<Item = &str> {
    let is_requirement = |part: &&str| {
        let letters = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let known = REQUIREMENTS
            .iter()
            .map(|(prefix, _)| *prefix)
            .chain(["o", "u"]);
        letters.len() < part.len() && known.into_iter().any(|prefix| prefix == letters)
    };
    test.split('_').take_while(is_requirement)
}

#[test]
fn every_requirement_has_a_test() {
    let tests = tests();
    let covered: BTreeSet<&str> = tests.iter().flat_map(|name| requirements(name)).collect();
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
    let words = page.split('`').skip(1).step_by(2);
    let named: BTreeSet<String> = words
        .filter(|word| requirements(word).next().is_some())
        .map(str::to_owned)
        .collect();
    assert_eq!(named, tests());
}
