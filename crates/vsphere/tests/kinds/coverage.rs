//! Every line of the checklist has a test, and README.md tells which.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where such tests are, from the root.
const PLACES: [&str; 6] = [
    "crates/identity/src",
    "crates/vsphere/src",
    "crates/vsphere/tests",
    "crates/relocate/src",
    "crates/relocate/tests",
    "e2e/tests/cluster_api.rs",
];

/// How many lines of each sort there are.
const LINES: [(&str, u32); 10] = [
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

/// What tests are called that begin with a line.
fn tests() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths: Vec<PathBuf> = PLACES.iter().map(|place| root.join(place)).collect();
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
        .filter(|name| lines(name).next().is_some())
        .map(str::to_owned)
}

/// The lines that a test's name begins with.
fn lines(test: &str) -> impl Iterator<Item = &str> {
    let is_line = |part: &&str| {
        let letters = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let known = LINES.iter().map(|(sort, _)| *sort).chain(["o", "u"]);
        letters.len() < part.len() && known.into_iter().any(|sort| sort == letters)
    };
    test.split('_').take_while(is_line)
}

#[test]
fn every_line_of_the_checklist_has_a_test() {
    let tests = tests();
    let covered: BTreeSet<&str> = tests.iter().flat_map(|name| lines(name)).collect();
    let wanted = LINES.iter().flat_map(|(sort, count)| {
        let numbers = 1..=*count;
        numbers.map(move |number| format!("{sort}{number}"))
    });
    let lacking: Vec<String> = wanted
        .filter(|line| !covered.contains(line.as_str()))
        .collect();
    assert_eq!(lacking, Vec::<String>::new());
}

#[test]
fn the_page_names_every_test_and_no_other() {
    let page = include_str!("../README.md");
    let words = page.split('`').skip(1).step_by(2);
    let named: BTreeSet<String> = words
        .filter(|word| lines(word).next().is_some())
        .map(str::to_owned)
        .collect();
    assert_eq!(named, tests());
}
