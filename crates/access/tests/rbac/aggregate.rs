//! Aggregated roles.

use std::collections::HashSet;

use insula_access::rbac::{Policy, RbacKind, Reach, RoleRef};
use serde_json::{Value, json};

use crate::{binding, caller, get, object};

/// A role with these labels, each `"key": "true"`, that allows one resource.
fn leaf(name: &str, labels: &[&str], resource: &str) -> Value {
    let labels: Value = labels.iter().map(|&label| (label, "true")).collect();
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
    json!({"metadata": {"name": name, "labels": labels}, "rules": [rule]})
}

/// A role with these labels that aggregates all roles with any of the labels in `of`.
fn made_of(name: &str, labels: &[&str], of: &[&str]) -> Value {
    let labels: Value = labels.iter().map(|&label| (label, "true")).collect();
    let selectors = of
        .iter()
        .map(|&label| json!({"matchLabels": {label: "true"}}));
    // Stored rules of an aggregated role are ignored.
    let stale = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    json!({
        "metadata": {"name": name, "labels": labels},
        "aggregationRule": {"clusterRoleSelectors": Value::from_iter(selectors)},
        "rules": [stale],
    })
}

fn policy(roles: &[Value]) -> Policy {
    let mut policy = Policy::new();
    for role in roles {
        policy.put(object(RbacKind::ClusterRole, role));
    }
    policy
}

/// The first resource of each rule of a role.
fn resources(policy: &Policy, role: &str) -> String {
    let rules = policy.role_rules(RoleRef::ClusterRole(role)).unwrap();
    let resources: Vec<&str> = rules.iter().map(|rule| &*rule.resources[0]).collect();
    resources.join(" ")
}

#[test]
fn aggregated_rules_are_ordered_by_selector_then_name_without_duplicates() {
    let policy = policy(&[
        leaf("z", &["one"], "z"),
        leaf("a", &["one", "two"], "a"),
        leaf("m", &["two"], "m"),
        leaf("n", &["two"], "z"),
        leaf("x", &["three"], "x"),
        made_of("both", &["one"], &["two", "one"]),
        made_of("none", &[], &["nosuch"]),
        made_of("nothing", &[], &[]),
    ]);
    assert_eq!(resources(&policy, "both"), "a m z");
    assert_eq!(resources(&policy, "none"), "");
    assert_eq!(resources(&policy, "nothing"), "");
}

#[test]
fn chains_of_aggregation_are_followed_and_updated() {
    let mut policy = policy(&[
        made_of("top", &[], &["middle"]),
        made_of("between", &["middle"], &["low"]),
        leaf("own", &["middle"], "own"),
        leaf("leaf", &["low"], "leaf"),
    ]);
    assert_eq!(resources(&policy, "top"), "leaf own");
    policy.put(object(
        RbacKind::ClusterRole,
        &leaf("leaf", &["low"], "other"),
    ));
    assert_eq!(resources(&policy, "top"), "other own");
    policy.put(object(
        RbacKind::ClusterRole,
        &leaf("added", &["low"], "added"),
    ));
    assert_eq!(resources(&policy, "top"), "added other own");
    policy.put(object(RbacKind::ClusterRole, &leaf("leaf", &[], "other")));
    assert_eq!(resources(&policy, "top"), "added own");
    policy.remove(RbacKind::ClusterRole, None, "between");
    assert_eq!(resources(&policy, "top"), "own");
    // An aggregated role may become a plain one, and may be removed.
    policy.put(object(RbacKind::ClusterRole, &leaf("top", &[], "plain")));
    assert_eq!(resources(&policy, "top"), "plain");
    policy.remove(RbacKind::ClusterRole, None, "top");
    assert!(policy.role_rules(RoleRef::ClusterRole("top")).is_none());
}

#[test]
fn cycles_terminate_and_share_all_their_rules() {
    let policy = policy(&[
        made_of("a", &["to-c"], &["to-a"]),
        made_of("b", &["to-a"], &["to-b"]),
        made_of("c", &["to-b", "to-c"], &["to-c"]),
        leaf("in-a", &["to-a"], "1"),
        leaf("in-b", &["to-b"], "2"),
        leaf("in-c", &["to-c"], "3"),
    ]);
    for role in ["a", "b", "c"] {
        let mut found: Vec<_> = resources(&policy, role)
            .split(' ')
            .map(str::to_owned)
            .collect();
        found.sort();
        assert_eq!(found, ["1", "2", "3"], "{role}");
    }
}

#[test]
fn chain_longer_than_the_thread_stack_is_followed() {
    let mut policy = Policy::new();
    let last = 400;
    for n in 0..last {
        let (name, label, next) = (format!("r{n}"), format!("l{n}"), format!("l{}", n + 1));
        policy.put(object(
            RbacKind::ClusterRole,
            &made_of(&name, &[&label], &[&next]),
        ));
    }
    let end = leaf("end", &[&format!("l{last}")], "end");
    policy.put(object(RbacKind::ClusterRole, &end));
    let small = std::thread::Builder::new().stack_size(64 << 10);
    let found = small.spawn(move || resources(&policy, "r0")).unwrap();
    assert_eq!(found.join().unwrap(), "end");
}

#[test]
fn mutually_selecting_roles_stay_within_the_step_budget() {
    let mut policy = Policy::new();
    for n in 0..1_500 {
        let mut all = made_of(&format!("all{n}"), &[], &[]);
        all["aggregationRule"]["clusterRoleSelectors"] = json!([{}]);
        policy.put(object(RbacKind::ClusterRole, &all));
        let name = format!("leaf{n}");
        policy.put(object(RbacKind::ClusterRole, &leaf(&name, &[], &name)));
    }
    let before = policy.weight();
    for n in 0..1_500 {
        let name = format!("all{n}");
        let rules = policy.role_rules(RoleRef::ClusterRole(&name)).unwrap();
        let distinct: HashSet<_> = rules.iter().collect();
        assert_eq!(distinct.len(), rules.len(), "{name}");
    }
    assert_eq!(resources(&policy, "leaf0"), "leaf0");
    let grown = policy.weight() - before;
    assert!(grown < 8 << 20, "{grown}");
}

#[test]
fn expressions_select_and_an_empty_selector_selects_all() {
    let mut all = made_of("all", &["self"], &[]);
    all["aggregationRule"]["clusterRoleSelectors"] = json!([{}]);
    let mut some = made_of("some", &[], &[]);
    some["aggregationRule"]["clusterRoleSelectors"] = json!([{"matchExpressions": [
        {"key": "mine", "operator": "Exists"},
        {"key": "kind", "operator": "NotIn", "values": ["other"]},
    ]}]);
    let mut other = leaf("b", &["mine"], "b");
    other["metadata"]["labels"]["kind"] = json!("other");
    let policy = policy(&[all, some, other, leaf("a", &["mine"], "a")]);
    assert_eq!(resources(&policy, "some"), "a");
    let all = policy.role_rules(RoleRef::ClusterRole("all")).unwrap();
    let admin = policy
        .role_rules(RoleRef::ClusterRole("cluster-admin"))
        .unwrap();
    assert!(admin.iter().all(|rule| all.contains(rule)));
}

#[test]
fn labelled_role_extends_the_built_in_roles_and_their_holders() {
    let label = |role: &str| format!("rbac.authorization.k8s.io/aggregate-to-{role}");
    let (kind, value) = binding("b", Some("x"), "ClusterRole/admin", &["User/alice"]);
    let mut policy = Policy::new();
    policy.put(object(kind, &value));
    let is_allowed = |policy: &Policy| {
        let attributes = get("widgets", Some("x"));
        policy
            .decide(caller("alice", &[]), &attributes, Reach::Home)
            .is_allowed()
    };
    let count =
        |policy: &Policy, role| policy.role_rules(RoleRef::ClusterRole(role)).unwrap().len();
    let roles = ["admin", "edit", "view"];
    let before = roles.map(|role| count(&policy, role));
    for (to, reaches) in [
        ("view", [1, 1, 1]),
        ("edit", [1, 1, 0]),
        ("admin", [1, 0, 0]),
    ] {
        assert!(!is_allowed(&policy));
        let widgets = leaf("widgets", &[&label(to)], "widgets");
        policy.put(object(RbacKind::ClusterRole, &widgets));
        assert!(is_allowed(&policy), "{to}");
        let after = roles.map(|role| count(&policy, role));
        let grown: Vec<usize> = (0..3).map(|at| after[at] - before[at]).collect();
        assert_eq!(grown, reaches, "{to}");
        // Other spaces are not affected.
        assert_eq!(roles.map(|role| count(&Policy::new(), role)), before);
        policy.remove(RbacKind::ClusterRole, None, "widgets");
        assert_eq!(roles.map(|role| count(&policy, role)), before);
    }
}
