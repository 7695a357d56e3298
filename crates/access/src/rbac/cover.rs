//! Who gives rights away has them.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::act::Who;
use super::decision::Unresolved;
use super::quote::{Quoted, QuotedList};
use super::rule::{Rule, has, has_or_star, url_covers};

/// How many rules are held against each other at most, in one question.
///
/// A rule with a few thousand groups, resources, verbs and names is small, and says more
/// than could ever be looked at one by one. This much takes about a tenth of a second. Real
/// roles stay far below: the largest of Kubernetes has a few hundred single rights.
const MOST_CHECKS: usize = 1 << 23;

/// What a single right costs even if nobody owns anything, in checks.
const ATOM_COST: usize = 128;

/// Whether whoever has the rules `owner` may give `needed` away, and else what they lack.
///
/// The law: each single right in `needed`, one verb on one resource in one group, for one
/// name or for all, or one verb on one path, is within some rule of `owner`. What is
/// lacking is told as such single rights.
///
/// A rule of more single rights than can be looked at has to be within one rule of `owner`
/// as it stands, and else is told as it stands.
pub fn covers<O, N>(owner: &[O], needed: &[N]) -> Result<(), Vec<Rule>>
where
    O: Borrow<Rule>,
    N: Borrow<Rule>,
{
    let owner: HashSet<&Rule> = owner.iter().map(Borrow::borrow).collect();
    let is_covered = |rule: &Rule| owner.iter().any(|owned| is_within(rule, owned));
    let cost = owner.len() + ATOM_COST;
    let mut left = MOST_CHECKS;
    let mut missing = Vec::new();
    for rule in needed.iter().map(Borrow::borrow) {
        if !is_mixed(rule) && is_covered(rule) {
            continue;
        }
        match left.checked_sub(count_atoms(rule).saturating_mul(cost)) {
            None => missing.push(rule.clone()),
            Some(rest) => {
                left = rest;
                missing.extend(atoms(rule).into_iter().filter(|atom| !is_covered(atom)));
            }
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(missing),
    }
}

/// What is said to somebody who lacks what they give away.
pub fn explain(who: Who<'_>, missing: &[Rule], unresolved: &Unresolved) -> String {
    let (user, groups) = (Quoted(who.user), QuotedList(who.groups));
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

/// Whether names are said of paths too, which no valid rule does. Apart, they are not.
const fn is_mixed(rule: &Rule) -> bool {
    !rule.resource_names.is_empty() && !rule.non_resource_urls.is_empty()
}

/// How many single rights a rule has.
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

/// The single rights of a rule, each as a rule.
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

/// Whether the owned rule alone has everything that the rule has.
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

/// Puts the verbs on one resource, or one object, together.
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
