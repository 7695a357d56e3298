//! The escalation check, compared with enumerating all requests.

use insula_access::rbac::escalation::covers;
use insula_access::rbac::{Attributes, ResourceAttributes, Rule};
use proptest::prelude::*;
use proptest::sample::subsequence;

/// The elements of generated rules.
const VERBS: [&str; 3] = ["get", "list", "*"];
const GROUPS: [&str; 3] = ["", "apps", "*"];
const RESOURCES: [&str; 7] = ["pods", "pods/log", "nodes", "*/log", "pods/*", "*", "*/*"];
const NAMES: [&str; 2] = ["a", "b"];
const URLS: [&str; 6] = ["/a", "/a/*", "/a*", "/a/b", "/*", "*"];

fn list(of: &'static [&'static str], least: usize) -> impl Strategy<Value = Vec<String>> {
    subsequence(of, least..=2).prop_map(|list| list.into_iter().map(str::to_owned).collect())
}

/// Rules about objects, about paths, and about both, which a server would reject.
pub fn rule() -> impl Strategy<Value = Rule> {
    let parts = (
        list(&VERBS, 1),
        list(&GROUPS, 1),
        list(&RESOURCES, 1),
        list(&NAMES, 0),
        list(&URLS, 1),
    );
    (parts, 0..10).prop_map(|((verbs, groups, resources, names, urls), of)| {
        let objects = Rule {
            verbs,
            api_groups: groups,
            resources,
            ..Rule::default()
        };
        match of {
            0..5 => objects,
            5..8 => Rule {
                resource_names: names,
                ..objects
            },
            8 => Rule {
                non_resource_urls: urls,
                ..objects
            },
            _ => Rule {
                verbs: objects.verbs,
                non_resource_urls: urls,
                ..Rule::default()
            },
        }
    })
}

/// Every request that these rules can distinguish. Names that no rule mentions (`rest`) stand
/// for all others.
fn requests() -> impl Iterator<Item = Attributes<'static>> {
    let resources = [
        ("pods", None),
        ("pods", Some("log")),
        ("pods", Some("*")),
        ("pods", Some("rest")),
        ("nodes", None),
        ("nodes", Some("log")),
        ("rest", None),
        ("rest", Some("log")),
        ("rest", Some("rest")),
        ("*", Some("*")),
    ];
    let verbs = ["get", "list", "rest"];
    let objects = verbs.into_iter().flat_map(move |verb| {
        ["", "apps", "rest"].into_iter().flat_map(move |group| {
            resources
                .into_iter()
                .flat_map(move |(resource, subresource)| {
                    [None, Some("a"), Some("b"), Some("rest")].map(|name| {
                        Attributes::Resource(ResourceAttributes {
                            verb,
                            group,
                            resource,
                            subresource,
                            namespace: None,
                            name,
                        })
                    })
                })
        })
    });
    let paths = verbs.into_iter();
    objects.chain(paths.flat_map(|verb| PATHS.map(|path| Attributes::NonResource { verb, path })))
}

const PATHS: [&str; 7] = ["/a", "/a/", "/a/b", "/a/rest", "/arest", "/rest", "rest"];

fn allows(rules: &[Rule], attributes: &Attributes<'_>) -> bool {
    rules.iter().any(|rule| rule.allows(attributes))
}

/// Reports whether `owner` allows every request that `needed` allows.
fn contains(owner: &[Rule], needed: &[Rule]) -> bool {
    requests().all(|attributes| !allows(needed, &attributes) || allows(owner, &attributes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn grant_is_covered_if_and_only_if_no_request_is_gained(
        owner in prop::collection::vec(rule(), 0..5),
        needed in prop::collection::vec(rule(), 0..4),
    ) {
        let found = covers(&owner, &needed);
        prop_assert_eq!(found.is_ok(), contains(&owner, &needed));
        let missing = found.err().unwrap_or_default();
        for lacking in &missing {
            let lacking = std::slice::from_ref(lacking);
            prop_assert!(contains(&needed, lacking), "{lacking:?} was not needed");
            prop_assert!(!contains(&owner, lacking), "{lacking:?} is already held");
        }
        // Adding the missing permissions covers the grant.
        let together = [owner, missing].concat();
        prop_assert_eq!(covers(&together, &needed), Ok(()));
    }
}
