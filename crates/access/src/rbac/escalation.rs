//! The escalation check: a user may only grant permissions that they hold.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::attributes::User;
use super::decision::Unresolved;
use super::rule::{Rule, has, has_or_star, url_covers};
use insula_gotext::quote::{Quoted, QuotedList};

/// Upper bound on the string comparisons of one check.
///
/// A small rule with a few thousand groups, resources, verbs and names expands to more single
/// permissions than can be examined. This bound takes about ten milliseconds. Real roles stay
/// far below it: the largest of Kubernetes has a few hundred single permissions.
const MAX_COMPARISONS: usize = 1 << 22;

/// The minimum cost of checking one single permission, in comparisons.
const ATOM_COST: usize = 256;

/// Checks that the rules in `owner` include all of `needed`, and otherwise returns what is
/// missing.
///
/// `needed` is broken down into single permissions: one verb on one resource in one group, for
/// one name or for all; or one verb on one path. Each must be included in some rule of
/// `owner`. Missing permissions are returned in this form.
///
/// A rule with more single permissions than the budget allows must be included in one rule
/// of `owner` as a whole, and is otherwise returned as a whole.
pub fn covers<O, N>(owner: &[O], needed: &[N]) -> Result<(), Vec<Rule>>
where
    O: Borrow<Rule>,
    N: Borrow<Rule>,
{
    let owner: HashSet<&Rule> = owner.iter().map(Borrow::borrow).collect();
    let is_covered = |rule: &Rule| owner.iter().any(|owned| is_within(rule, owned));
    let sizes = owner.iter().fold([0; 5], |sum, rule| add(sum, sizes(rule)));
    let atom_cost = sizes.iter().sum::<usize>() + ATOM_COST;
    let mut left = MAX_COMPARISONS;
    let mut spend = |cost: usize| {
        let rest = left.checked_sub(cost);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let mut missing = Vec::new();
    for rule in needed.iter().map(Borrow::borrow) {
        if spend(whole_cost(rule, sizes)) && is_covered(rule) {
            continue;
        }
        match spend(count_atoms(rule).saturating_mul(atom_cost)) {
            false => missing.push(rule.clone()),
            true => missing.extend(atoms(rule).into_iter().filter(|atom| !is_covered(atom))),
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(missing),
    }
}

/// All permissions that exist: every verb on all objects and on all paths. It is required for
/// operations reserved to administrators, such as creating aggregated roles.
pub fn full_authority() -> [Rule; 2] {
    let star = || vec!["*".to_owned()];
    let objects = Rule {
        verbs: star(),
        api_groups: star(),
        resources: star(),
        ..Rule::default()
    };
    let paths = Rule {
        verbs: star(),
        non_resource_urls: star(),
        ..Rule::default()
    };
    [objects, paths]
}

/// The message for a user who tries to grant missing permissions, in Kubernetes' wording.
pub fn explain(user: User<'_>, missing: &[Rule], unresolved: &Unresolved) -> String {
    let (user, groups) = (Quoted(user.name), QuotedList(user.groups));
    let rules: BTreeSet<String> = compact(missing).iter().map(describe).collect();
    let rules = Vec::from_iter(rules).join("\n");
    let mut said = format!(
        "user {user} (groups={groups}) is attempting to grant RBAC permissions \
         not currently held:\n{rules}"
    );
    if !unresolved.is_empty() {
        said.push_str(&format!("; resolution errors: [{unresolved}]"));
    }
    said
}

/// The lengths of a rule's lists.
const fn sizes(rule: &Rule) -> [usize; 5] {
    [
        rule.verbs.len(),
        rule.api_groups.len(),
        rule.resources.len(),
        rule.resource_names.len(),
        rule.non_resource_urls.len(),
    ]
}

fn add(sum: [usize; 5], sizes: [usize; 5]) -> [usize; 5] {
    std::array::from_fn(|list| sum[list] + sizes[list])
}

/// The cost of comparing a rule as a whole with all owned ones.
fn whole_cost(rule: &Rule, owned: [usize; 5]) -> usize {
    let lists = sizes(rule).into_iter().zip(owned);
    lists.fold(0, |sum, (one, other)| {
        sum.saturating_add(one.saturating_mul(other))
    })
}

/// The number of single permissions in a rule.
fn count_atoms(rule: &Rule) -> usize {
    let objects = [
        rule.api_groups.len(),
        rule.resources.len(),
        rule.resource_names.len().max(1),
    ];
    let objects = objects.into_iter().fold(1, usize::saturating_mul);
    let things = objects.saturating_add(rule.non_resource_urls.len());
    things.saturating_mul(rule.verbs.len())
}

/// The single permissions of a rule, each as a rule.
fn atoms(rule: &Rule) -> Vec<Rule> {
    let mut atoms = Vec::new();
    let one = |text: &String| vec![text.clone()];
    let names: Vec<Vec<String>> = match rule.resource_names.is_empty() {
        true => vec![Vec::new()],
        false => rule.resource_names.iter().map(one).collect(),
    };
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                atoms.extend(names.iter().map(|name| Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: name.clone(),
                    ..Rule::default()
                }));
            }
        }
    }
    for url in &rule.non_resource_urls {
        atoms.extend(rule.verbs.iter().map(|verb| Rule {
            verbs: one(verb),
            non_resource_urls: one(url),
            ..Rule::default()
        }));
    }
    atoms
}

/// Reports whether a single owned rule includes all of `rule`.
fn is_within(rule: &Rule, owned: &Rule) -> bool {
    let all = |list: &[String], of: &[String]| list.iter().all(|text| has_or_star(of, text));
    let is_url_owned = |url: &String| {
        let mut urls = owned.non_resource_urls.iter();
        urls.any(|owned| url_covers(owned, url))
    };
    let names = &owned.resource_names;
    all(&rule.api_groups, &owned.api_groups)
        && rule
            .resources
            .iter()
            .all(|resource| is_resource_owned(resource, owned))
        && all(&rule.verbs, &owned.verbs)
        && rule.non_resource_urls.iter().all(is_url_owned)
        && (names.is_empty()
            || (!rule.resource_names.is_empty()
                && rule.resource_names.iter().all(|name| has(names, name))))
}

fn is_resource_owned(resource: &str, owned: &Rule) -> bool {
    has_or_star(&owned.resources, resource)
        || resource.split_once('/').is_some_and(|(_, part)| {
            let mut resources = owned.resources.iter();
            resources.any(|owned| owned.strip_prefix("*/") == Some(part))
        })
}

/// Merges the verbs of rules about the same resource or object.
fn compact(rules: &[Rule]) -> Vec<Rule> {
    let mut compacted = Vec::new();
    let mut by_object: BTreeMap<_, Rule> = BTreeMap::new();
    for rule in rules {
        let lists = (&*rule.api_groups, &*rule.resources, &*rule.resource_names);
        match lists {
            ([group], [resource], [] | [_]) if rule.non_resource_urls.is_empty() => {
                let key = (group, resource, rule.resource_names.first());
                by_object
                    .entry(key)
                    .and_modify(|known| known.verbs.extend(rule.verbs.iter().cloned()))
                    .or_insert_with(|| rule.clone());
            }
            _ => compacted.push(rule.clone()),
        }
    }
    compacted.extend(by_object.into_values());
    compacted
}

fn describe(rule: &Rule) -> String {
    let lists = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let lists = lists.map(|(name, list)| format!("{name}:{}", QuotedList(list)));
    format!("{{{}}}", Vec::from_iter(lists).join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rbac::decision::UnresolvedRole;

    fn rules(json: Value) -> Vec<Rule> {
        serde_json::from_value(json).unwrap()
    }

    /// Parses a rule in one line: `verbs groups resources names`, comma-separated; `-` is an
    /// empty list and `_` the empty string. A rule about paths has two words.
    fn rule(text: &str) -> Rule {
        let list = |word: &str| -> Vec<String> {
            let words = word.split(',').filter(|word| *word != "-");
            words.map(|word| word.replace('_', "")).collect()
        };
        let lists: Vec<_> = text.split(' ').map(list).collect();
        match &lists[..] {
            [verbs, urls] => Rule {
                verbs: verbs.clone(),
                non_resource_urls: urls.clone(),
                ..Rule::default()
            },
            [verbs, groups, resources, names @ ..] => Rule {
                verbs: verbs.clone(),
                api_groups: groups.clone(),
                resources: resources.clone(),
                resource_names: names.first().cloned().unwrap_or_default(),
                ..Rule::default()
            },
            _ => panic!("{text}"),
        }
    }

    #[test]
    fn every_granted_permission_must_be_held_by_some_rule() {
        for (owner, needed, missing) in [
            (&[][..], "get _ pods", &["get _ pods"][..]),
            (&["get _ pods"], "get _ pods", &[]),
            (&["* * *"], "get,frobnicate _,apps pods,pods/log a", &[]),
            (&["* * *"], "get /x", &["get /x"]),
            (&["* *"], "get /x,/y/*", &[]),
            (&["* *"], "get _ pods", &["get _ pods"]),
            // Assembled from several rules.
            (
                &["get _ pods", "list _ pods", "get,list apps pods"],
                "get,list _,apps pods",
                &[],
            ),
            (
                &["get _ pods", "list apps pods"],
                "get,list _,apps pods",
                &["list _ pods", "get apps pods"],
            ),
            // A star is included in a star only.
            (&["get,list _ pods"], "* _ pods", &["* _ pods"]),
            (&["get _ pods"], "get * pods", &["get * pods"]),
            (&["get _ pods"], "get _ *", &["get _ *"]),
            // Subresources.
            (&["get _ pods"], "get _ pods/log", &["get _ pods/log"]),
            (&["get _ */scale"], "get _ pods/scale", &[]),
            (&["get _ */scale"], "get _ */scale", &[]),
            (&["get _ */scale"], "get _ scale", &["get _ scale"]),
            (
                &["get _ */upscale"],
                "get _ pods/scale",
                &["get _ pods/scale"],
            ),
            (&["get _ pods/*"], "get _ pods/log", &["get _ pods/log"]),
            (&["get _ pods/scale"], "get _ */scale", &["get _ */scale"]),
            (&["get _ */b/c"], "get _ a/b/c", &[]),
            (&["get _ */c"], "get _ a/b/c", &["get _ a/b/c"]),
            // Names.
            (&["get _ pods"], "get _ pods a", &[]),
            (&["get _ pods a"], "get _ pods", &["get _ pods"]),
            (&["get _ pods a"], "get _ pods a,b", &["get _ pods b"]),
            (&["get _ pods a", "get _ pods b"], "get _ pods a,b", &[]),
            // Paths.
            (&["get /foo/*"], "get /foo/x,/foo/*,/foo/x/*", &[]),
            (&["get /foo/*"], "get /foo", &["get /foo"]),
            (&["get /foo"], "get /foo*", &["get /foo*"]),
            (&["get /foo*"], "get,put /foo", &["put /foo"]),
            (&["get /foo/*"], "get *", &["get *"]),
            // A rule that grants nothing requires nothing.
            (&[], "- _ pods", &[]),
            (&[], "get - pods", &[]),
            (&[], "get _ -", &[]),
        ] {
            let owner: Vec<Rule> = owner.iter().map(|text| rule(text)).collect();
            let missing: Vec<Rule> = missing.iter().map(|text| rule(text)).collect();
            let expected = if missing.is_empty() {
                Ok(())
            } else {
                Err(missing)
            };
            let found = covers(&owner, &[rule(needed)]);
            assert_eq!(found, expected, "{owner:?} {needed}");
        }
    }

    #[test]
    fn full_authority_requires_all_objects_and_all_paths() {
        let half = ["* * *", "* *"].map(rule);
        assert_eq!(full_authority(), half);
        assert_eq!(covers(&half, &full_authority()), Ok(()));
        for owner in [
            vec![],
            vec![rule("* * *")],
            vec![rule("* *")],
            vec![rule("* * * a"), rule("* *")],
            vec![rule("get,list * *"), rule("* *")],
            vec![rule("* * *"), rule("* /*")],
        ] {
            let missing = covers(&owner, &full_authority()).unwrap_err();
            assert!(!missing.is_empty(), "{owner:?}");
        }
    }

    #[test]
    fn rule_with_too_many_permissions_is_refused_unless_held_as_a_whole() {
        let many = |with: &str| (0..1000).map(|n| format!("{with}{n}")).collect::<Vec<_>>();
        let huge = Rule {
            verbs: many("v"),
            api_groups: many("g"),
            resources: many("r"),
            resource_names: many("n"),
            ..Rule::default()
        };
        let owner = rule("get _ pods");
        let found = covers(&[&owner], &[&huge, &owner, &huge]);
        assert_eq!(found, Err(vec![huge.clone(), huge.clone()]));
        // It may still be granted if one rule holds it.
        assert_eq!(covers(&[rule("* * *")], &[&huge]), Ok(()));
        assert_eq!(covers(&[&owner, &huge], &[&huge]), Ok(()));
        // The budget covers all rules together.
        let wide = Rule {
            resource_names: many("n"),
            ..rule("a,b,c,d,e g r")
        };
        let found = covers::<Rule, _>(&[], &vec![wide; 1000]).unwrap_err();
        assert!(found.len() < 132_000, "{}", found.len());
    }

    #[test]
    fn missing_permissions_are_reported_in_kubernetes_wording() {
        let groups: Vec<String> = ["dev", "qa", "system:authenticated"]
            .map(str::to_owned)
            .into();
        let user = User {
            name: "alice",
            groups: &groups,
        };
        let needed = rules(json!([
            {"verbs": ["get"], "nonResourceURLs": ["/bar", "/foo/x"]},
            {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"],
                "resourceNames": ["d1", "d2"]},
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
        ]));
        let owner = rules(json!([
            {"verbs": ["get"], "nonResourceURLs": ["/foo/*"]},
            {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"],
                "resourceNames": ["d1"]},
        ]));
        let missing = covers(&owner, &needed).unwrap_err();
        let expected = "user \"alice\" (groups=[\"dev\" \"qa\" \"system:authenticated\"]) is \
            attempting to grant RBAC permissions not currently held:\n\
            {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}\n\
            {APIGroups:[\"apps\"], Resources:[\"deployments\"], ResourceNames:[\"d2\"], \
            Verbs:[\"get\"]}\n\
            {NonResourceURLs:[\"/bar\"], Verbs:[\"get\"]}";
        assert_eq!(explain(user, &missing, &Unresolved::default()), expected);
        for (roles, suffix) in [
            (
                &["a"][..],
                r#"; resolution errors: [role.rbac.authorization.k8s.io "a" not found]"#,
            ),
            (
                &["a", "b", "a"],
                "; resolution errors: [[role.rbac.authorization.k8s.io \"a\" not found, \
                 role.rbac.authorization.k8s.io \"b\" not found]]",
            ),
        ] {
            let roles = roles
                .iter()
                .map(|&name| UnresolvedRole::NoRole(name.into()));
            let said = explain(user, &missing, &Unresolved(roles.collect()));
            assert_eq!(said, format!("{expected}{suffix}"));
        }
    }

    #[test]
    fn lines_are_sorted_and_verbs_keep_their_order() {
        let user = User {
            name: "a\"b",
            groups: &[],
        };
        let head = "user \"a\\\"b\" (groups=[]) is attempting to grant RBAC permissions \
                    not currently held:\n";
        for (needed, lines) in [
            // Duplicate verbs are kept, and paths are not merged.
            (
                &["list,get _ pods", "get _ pods", "get _ configmaps"][..],
                "{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"get\"]}\n\
                 {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"get\" \"get\"]}",
            ),
            (
                &["put,get /b", "get /a", "get /a"],
                "{NonResourceURLs:[\"/a\"], Verbs:[\"get\"]}\n\
                 {NonResourceURLs:[\"/b\"], Verbs:[\"get\"]}\n\
                 {NonResourceURLs:[\"/b\"], Verbs:[\"put\"]}",
            ),
            (
                &["get,list _ pods x", "get _ pods"],
                "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"x\"], \
                 Verbs:[\"get\" \"list\"]}\n\
                 {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}",
            ),
        ] {
            let needed: Vec<Rule> = needed.iter().map(|text| rule(text)).collect();
            let missing = covers::<Rule, _>(&[], &needed).unwrap_err();
            let said = explain(user, &missing, &Unresolved::default());
            assert_eq!(said, format!("{head}{lines}"));
        }
    }
}
