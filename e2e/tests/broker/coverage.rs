//! Every requirement in docs/requirements/brokers.md has a test here, and the page names it.

use std::collections::BTreeSet;
use std::path::Path;

use insula_e2e::insula::root;
use regex::Regex;

/// The number of requirements.
const REQUIREMENTS: u32 = 84;
/// The page that lists them.
const PAGE: &str = "docs/requirements/brokers.md";

/// Returns the sources in a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    let rust = paths.filter(|path| path.extension().is_some_and(|found| found == "rs"));
    rust.map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

/// Returns the names of tests that begin with the number of a requirement.
fn tests(sources: &str) -> BTreeSet<&str> {
    let name = Regex::new(r"fn (r\d+_[a-z0-9_]+)\(").unwrap();
    let names = name.captures_iter(sources);
    names.map(|found| found.get(1).unwrap().as_str()).collect()
}

/// Returns the numbers that a test's name begins with.
fn numbers(test: &str) -> impl Iterator<Item = u32> {
    let number = |part: &str| part.strip_prefix('r')?.parse().ok();
    test.split('_').map_while(number)
}

#[test]
fn every_requirement_has_a_test() {
    let here = sources(&root().join("e2e/tests/broker"));
    let covered: BTreeSet<u32> = tests(&here).into_iter().flat_map(numbers).collect();
    let uncovered: Vec<u32> = (1..=REQUIREMENTS)
        .filter(|number| !covered.contains(number))
        .collect();
    assert_eq!(uncovered, Vec::<u32>::new());
}

#[test]
fn requirements_page_lists_every_number_once() {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let row = Regex::new(r"(?m)^\| R(\d+) \| \S").unwrap();
    let listed: Vec<u32> = row
        .captures_iter(&page)
        .map(|found| found[1].parse().unwrap())
        .collect();
    assert_eq!(listed, (1..=REQUIREMENTS).collect::<Vec<u32>>());
}

#[test]
fn requirements_page_names_exactly_the_tests() {
    let here = sources(&root().join("e2e/tests/broker"));
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let named = Regex::new(r"`[a-z_]+::(r\d+_[a-z0-9_]+)`").unwrap();
    let named: BTreeSet<&str> = named
        .captures_iter(&page)
        .map(|found| found.get(1).unwrap().as_str())
        .collect();
    assert_eq!(named, tests(&here));
}
