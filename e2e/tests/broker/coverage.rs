//! Every line of the checklist has a test here, and README.md tells which.

use std::collections::BTreeSet;
use std::path::Path;

use insula_e2e::insula::root;
use regex::Regex;

/// How many lines the checklist has.
const LINES: u32 = 84;

/// The sources in a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    let rust = paths.filter(|path| path.extension().is_some_and(|found| found == "rs"));
    rust.map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

/// What tests are called that begin with the number of a line.
fn tests(sources: &str) -> BTreeSet<&str> {
    let name = Regex::new(r"fn (r\d+_[a-z0-9_]+)\(").unwrap();
    let names = name.captures_iter(sources);
    names.map(|found| found.get(1).unwrap().as_str()).collect()
}

/// The numbers that a test's name begins with.
fn numbers(test: &str) -> impl Iterator<Item = u32> {
    let number = |part: &str| part.strip_prefix('r')?.parse().ok();
    test.split('_').map_while(number)
}

#[test]
fn every_line_of_the_checklist_has_a_test() {
    let here = sources(&root().join("e2e/tests/broker"));
    let covered: BTreeSet<u32> = tests(&here).into_iter().flat_map(numbers).collect();
    let lacking: Vec<u32> = (1..=LINES).filter(|line| !covered.contains(line)).collect();
    assert_eq!(lacking, Vec::<u32>::new());
}

#[test]
fn the_page_names_every_test_and_no_other() {
    let here = sources(&root().join("e2e/tests/broker"));
    let page = std::fs::read_to_string(root().join("e2e/tests/broker/README.md")).unwrap();
    let named = Regex::new(r"`[a-z_]+::(r\d+_[a-z0-9_]+)`").unwrap();
    let named: BTreeSet<&str> = named
        .captures_iter(&page)
        .map(|found| found.get(1).unwrap().as_str())
        .collect();
    assert_eq!(named, tests(&here));
}
