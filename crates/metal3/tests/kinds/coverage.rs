//! `docs/requirements/metal3.md` lists exactly the numbered tests.

use insula_testkit::requirements::Requirements;

const TESTED: Requirements = Requirements {
    sources: &["crates/metal3/src", "crates/metal3/tests"],
    prefixes: &["l", "m", "r", "s", "x"],
};

#[test]
fn page_lists_exactly_the_tests() {
    let page = include_str!("../../../../docs/requirements/metal3.md");
    assert_eq!(TESTED.named_in(page), TESTED.tests().unwrap());
}
