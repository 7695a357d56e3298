//! RBAC rules, and what they allow.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;

/// The core group.
pub const CORE: &str = "";
/// The group of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";
/// The verbs of users who only read.
pub const READ: &[&str] = &["get", "list", "watch"];
/// The verbs of users who read and write single objects.
pub const ALL_VERBS: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];

/// Returns a rule.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// Returns the rules for leader election, in the namespace of the operator.
pub fn leader_election() -> PolicyRule {
    rule(
        "coordination.k8s.io",
        &["leases"],
        &["get", "create", "update"],
    )
}

/// Returns the rules for kinds that an operator reconciles: it reads and changes them, and writes
/// their status and finalizers.
pub fn reconciled(group: &str, resources: &[&str]) -> [PolicyRule; 3] {
    let with = |subresource: &str, verbs: &[&str]| {
        let names = resources.iter().map(|of| format!("{of}/{subresource}"));
        PolicyRule {
            resources: Some(names.collect()),
            ..rule(group, &[], verbs)
        }
    };
    [
        rule(
            group,
            resources,
            &["get", "list", "watch", "update", "patch"],
        ),
        with("status", &["get", "update", "patch"]),
        with("finalizers", &["update"]),
    ]
}

/// Returns the rules for Secrets that objects reference: they are claimed, and deleted with their
/// owner.
pub fn claimed_secrets() -> PolicyRule {
    rule(
        CORE,
        &["secrets"],
        &["get", "list", "watch", "update", "patch", "delete"],
    )
}

/// Returns the rules for recording events.
pub fn events() -> [PolicyRule; 2] {
    [CORE, "events.k8s.io"].map(|group| rule(group, &["events"], &["create", "patch"]))
}

/// Returns the rules for acting as the service account of that name in every namespace, and in
/// every tenant's space of an Insula.
pub fn impersonation(account: &str, tenants: bool) -> Vec<PolicyRule> {
    let verbs = &["impersonate"];
    let mut rules = vec![PolicyRule {
        resource_names: Some(vec![account.to_owned()]),
        ..rule(CORE, &["serviceaccounts"], verbs)
    }];
    rules.extend(tenants.then(|| rule(CORE, &["tenants"], verbs)));
    rules
}

/// A single right: verb, group, resource, and the only object that it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The verb.
    pub verb: String,
    /// The group.
    pub group: String,
    /// The resource, with its subresource.
    pub resource: String,
    /// The name of the only object; none for all.
    pub name: Option<String>,
}

/// Returns the rights that rules give.
pub fn rights(rules: &[PolicyRule]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        let names = match &rule.resource_names {
            Some(names) => names.iter().cloned().map(Some).collect(),
            None => vec![None],
        };
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    rights.extend(names.iter().map(|name| Right {
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                    }));
                }
            }
        }
    }
    rights
}

/// Returns the rights that the holder would have to have in order to grant these rules: no user
/// can grant more than they have themselves, without `escalate` or `bind`.
pub fn lacking(holder: &[PolicyRule], granted: &[PolicyRule]) -> Vec<Right> {
    let held = rights(holder);
    let lacks = |right: &Right| {
        let any = Right {
            name: None,
            ..right.clone()
        };
        !held.contains(right) && !held.contains(&any)
    };
    rights(granted).into_iter().filter(lacks).collect()
}

/// Returns the rights with which a user can obtain any other: wildcards, and the verbs of
/// escalation.
pub fn escalations(rules: &[PolicyRule]) -> Vec<Right> {
    const ESCALATION_VERBS: [&str; 5] =
        ["escalate", "bind", "impersonate", "deletecollection", "*"];
    let is_wide = |right: &Right| {
        ESCALATION_VERBS.contains(&right.verb.as_str())
            || right.group == "*"
            || right.resource.contains('*')
    };
    rights(rules).into_iter().filter(is_wide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_to_all_objects_includes_the_right_to_one() {
        let mut one = rule(CORE, &["secrets"], &["get"]);
        one.resource_names = Some(vec!["s".to_owned()]);
        let (one, all) = ([one], [rule(CORE, &["secrets"], READ)]);
        assert_eq!(lacking(&all, &one), []);
        assert_eq!(lacking(&one, &all).len(), 3);
    }

    #[test]
    fn reconciled_kinds_are_changed_and_neither_created_nor_deleted() {
        let rights = rights(&reconciled("example.org", &["widgets"]));
        let rights = rights.iter();
        let rights = rights.map(|right| format!("{} {}", right.verb, right.resource));
        assert_eq!(
            rights.collect::<Vec<_>>(),
            [
                "get widgets",
                "get widgets/status",
                "list widgets",
                "patch widgets",
                "patch widgets/status",
                "update widgets",
                "update widgets/finalizers",
                "update widgets/status",
                "watch widgets",
            ]
        );
    }

    #[test]
    fn wildcards_and_escalating_verbs_are_found() {
        assert_eq!(escalations(&[rule(CORE, &["secrets"], ALL_VERBS)]), []);
        for wide in [
            rule("*", &["pods"], &["get"]),
            rule(CORE, &["*"], &["get"]),
            rule(CORE, &["pods/*"], &["get"]),
            rule(RBAC, &["roles"], &["bind"]),
            rule(CORE, &["users"], &["impersonate"]),
        ] {
            assert_eq!(escalations(&[wide]).len(), 1);
        }
    }
}
