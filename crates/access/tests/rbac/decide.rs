//! Authorization decisions and their reasons.

use insula_access::rbac::{Attributes, Policy, RbacKind, Reach, RoleRef};

use crate::{binding, caller, get, object, policy, role, texts};

/// Formats a decision: `yes` or `no`, followed by a colon and the reason if there is one.
fn decide(
    policy: &Policy,
    user: &str,
    groups: &[&str],
    attributes: &Attributes<'_>,
    reach: Reach,
) -> String {
    let groups = texts(groups);
    let decision = policy.decide(caller(user, &groups), attributes, reach);
    let said = if decision.is_allowed() { "yes" } else { "no" };
    let reason = decision.reason();
    assert_eq!(reason.is_empty(), reason.to_string().is_empty());
    match reason.is_empty() {
        true => said.to_owned(),
        false => format!("{said}: {reason}"),
    }
}

#[test]
fn subjects_match_users_groups_and_service_accounts_by_full_name() {
    let subjects = [
        "User/alice",
        "Group/dev",
        "ServiceAccount/robot/ops",
        "ServiceAccount/local",
        "Robot/marvin",
        "User/*",
        "Group/*",
    ];
    let policy = policy(&[
        role("r", None, &["pods"]),
        binding("cluster", None, "ClusterRole/r", &subjects),
        binding("there", Some("x"), "ClusterRole/r", &subjects),
    ]);
    let cluster = "yes: RBAC: allowed by ClusterRoleBinding \"cluster\" of ClusterRole \"r\" to ";
    let there = "yes: RBAC: allowed by RoleBinding \"there/x\" of ClusterRole \"r\" to ";
    for (user, groups, expected) in [
        ("alice", &[][..], Some((cluster, "User \"alice\""))),
        ("bob", &["qa", "dev"], Some((cluster, "Group \"dev\""))),
        // The reason names the first matching subject of the binding.
        ("alice", &["dev"], Some((cluster, "User \"alice\""))),
        (
            "system:serviceaccount:ops:robot",
            &[],
            Some((cluster, "ServiceAccount \"robot/ops\"")),
        ),
        // A service account without a namespace takes that of the binding; a cluster role
        // binding has none.
        (
            "system:serviceaccount:x:local",
            &[],
            Some((there, "ServiceAccount \"local/x\"")),
        ),
        ("system:serviceaccount:y:local", &[], None),
        ("system:serviceaccount::local", &[], None),
        ("system:serviceaccount:x:robot", &[], None),
        ("system:serviceaccount:ops:robot2", &[], None),
        ("system:serviceaccount:ops", &[], None),
        ("robot", &[], None),
        ("local", &[], None),
        // User names do not match groups or vice versa, and a star is a plain name.
        ("dev", &["alice"], None),
        ("marvin", &["marvin"], None),
        ("Alice", &["Dev"], None),
        ("", &[""], None),
        ("*", &[], Some((cluster, "User \"*\""))),
    ] {
        let found = decide(&policy, user, groups, &get("pods", Some("x")), Reach::Home);
        let expected = expected.map(|(by, subject)| format!("{by}{subject}"));
        assert_eq!(
            found,
            expected.as_deref().unwrap_or("no"),
            "{user} {groups:?}"
        );
    }
}

#[test]
fn role_binding_applies_in_its_namespace_only() {
    let policy = policy(&[
        role("r", Some("x"), &["pods"]),
        role("r", Some("y"), &["secrets"]),
        role("r", None, &["nodes"]),
        binding("b", Some("x"), "Role/r", &["User/alice"]),
        binding("c", Some("x"), "ClusterRole/r", &["User/alice"]),
        binding("d", None, "ClusterRole/r", &["User/bob"]),
    ]);
    let by_role = "yes: RBAC: allowed by RoleBinding \"b/x\" of Role \"r\" to User \"alice\"";
    let by_cluster_role =
        "yes: RBAC: allowed by RoleBinding \"c/x\" of ClusterRole \"r\" to User \"alice\"";
    let bob = "yes: RBAC: allowed by ClusterRoleBinding \"d\" of ClusterRole \"r\" to User \"bob\"";
    for (user, resource, namespace, reach, expected) in [
        ("alice", "pods", Some("x"), Reach::Home, by_role),
        ("alice", "pods", Some("y"), Reach::Home, "no"),
        ("alice", "pods", None, Reach::Home, "no"),
        ("alice", "pods", Some(""), Reach::Home, "no"),
        ("alice", "secrets", Some("x"), Reach::Home, "no"),
        ("alice", "secrets", Some("y"), Reach::Home, "no"),
        ("alice", "nodes", Some("x"), Reach::Home, by_cluster_role),
        ("alice", "nodes", None, Reach::Home, "no"),
        // A namespace of the same name in another space is unrelated.
        ("alice", "pods", Some("x"), Reach::Elsewhere, "no"),
        ("alice", "nodes", Some("x"), Reach::Elsewhere, "no"),
        ("bob", "nodes", Some("x"), Reach::Home, bob),
        ("bob", "nodes", Some("x"), Reach::Elsewhere, bob),
        ("bob", "nodes", None, Reach::Elsewhere, bob),
        ("bob", "pods", Some("x"), Reach::Elsewhere, "no"),
    ] {
        let found = decide(&policy, user, &[], &get(resource, namespace), reach);
        assert_eq!(found, expected, "{user} {resource} {namespace:?} {reach:?}");
    }
}

#[test]
fn paths_are_granted_by_cluster_role_bindings_only() {
    let paths = serde_json::json!({
        "metadata": {"name": "r"},
        "rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
    });
    let mut policy = policy(&[
        (RbacKind::ClusterRole, paths),
        binding("b", Some("x"), "ClusterRole/r", &["User/alice"]),
    ]);
    let metrics = Attributes::NonResource {
        verb: "get",
        path: "/metrics",
    };
    assert_eq!(decide(&policy, "alice", &[], &metrics, Reach::Home), "no");
    let (kind, everywhere) = binding("c", None, "ClusterRole/r", &["User/alice"]);
    policy.put(object(kind, &everywhere));
    for reach in [Reach::Home, Reach::Elsewhere] {
        assert_eq!(
            decide(&policy, "alice", &[], &metrics, reach),
            "yes: RBAC: allowed by ClusterRoleBinding \"c\" of ClusterRole \"r\" to User \"alice\""
        );
    }
}

#[test]
fn masters_may_do_everything_without_a_reason() {
    let policy = Policy::new();
    for reach in [Reach::Home, Reach::Elsewhere] {
        for attributes in [
            get("anything", None),
            get("anything", Some("x")),
            Attributes::NonResource {
                verb: "put",
                path: "/x",
            },
        ] {
            let masters = &["dev", "system:masters"];
            assert_eq!(decide(&policy, "root", masters, &attributes, reach), "yes");
            assert_eq!(
                decide(&policy, "system:masters", &["dev"], &attributes, reach),
                "no"
            );
        }
    }
}

#[test]
fn reason_is_the_first_binding_by_name_cluster_role_bindings_first() {
    let policy = policy(&[
        role("pods", None, &["pods"]),
        role("more", None, &["pods", "nodes"]),
        role("less", None, &["nodes"]),
        binding("e", None, "ClusterRole/pods", &["User/alice"]),
        binding("d", None, "ClusterRole/more", &["Group/dev"]),
        binding("c", None, "ClusterRole/pods", &["Group/qa", "User/alice"]),
        binding("b", None, "ClusterRole/less", &["User/alice"]),
        binding("a", Some("x"), "ClusterRole/pods", &["User/alice"]),
    ]);
    for (groups, expected) in [
        (&[][..], "\"c\" of ClusterRole \"pods\" to User \"alice\""),
        (&["dev"], "\"c\" of ClusterRole \"pods\" to User \"alice\""),
        (&["qa"], "\"c\" of ClusterRole \"pods\" to Group \"qa\""),
    ] {
        let found = decide(
            &policy,
            "alice",
            groups,
            &get("pods", Some("x")),
            Reach::Home,
        );
        let expected = format!("yes: RBAC: allowed by ClusterRoleBinding {expected}");
        assert_eq!(found, expected, "{groups:?}");
    }
    let dev = decide(&policy, "bob", &["dev"], &get("pods", None), Reach::Home);
    assert!(
        dev.ends_with("\"d\" of ClusterRole \"more\" to Group \"dev\""),
        "{dev}"
    );
}

#[test]
fn names_are_quoted_in_reasons() {
    let policy = policy(&[
        role("r\"1", Some("x"), &["pods"]),
        binding("b\n", Some("x"), "Role/r\"1", &["User/al ice"]),
    ]);
    let found = decide(&policy, "al ice", &[], &get("pods", Some("x")), Reach::Home);
    let expected = r#"yes: RBAC: allowed by RoleBinding "b\n/x" of Role "r\"1" to User "al ice""#;
    assert_eq!(found, expected);
}

#[test]
fn missing_role_grants_nothing_and_is_reported_on_denial() {
    let policy = policy(&[
        role("there", None, &["pods"]),
        role("elsewhere", Some("y"), &["pods"]),
        binding(
            "a",
            Some("x"),
            "Role/elsewhere",
            &["User/alice", "User/bob"],
        ),
        binding("b", Some("x"), "Role/elsewhere", &["User/alice"]),
        binding(
            "z",
            None,
            "ClusterRole/nosuch",
            &["User/alice", "User/carol"],
        ),
        binding("y", None, "ClusterRole/there", &["User/alice"]),
        binding("f", None, "Role/flat", &["User/frank"]),
        binding("o", None, "Rule/odd", &["User/otto"]),
    ]);
    let none = "clusterrole.rbac.authorization.k8s.io \"nosuch\" not found";
    let role = "role.rbac.authorization.k8s.io \"elsewhere\" not found";
    let both = format!("no: RBAC: [{none}, {role}]");
    for (user, resource, namespace, reach, expected) in [
        (
            "bob",
            "pods",
            Some("x"),
            Reach::Home,
            format!("no: RBAC: {role}"),
        ),
        ("bob", "pods", Some("y"), Reach::Home, "no".to_owned()),
        ("bob", "pods", Some("x"), Reach::Elsewhere, "no".to_owned()),
        (
            "carol",
            "pods",
            None,
            Reach::Home,
            format!("no: RBAC: {none}"),
        ),
        // Duplicates are reported once, and cluster role bindings come first.
        ("alice", "nodes", Some("x"), Reach::Home, both),
        (
            "alice",
            "nodes",
            Some("x"),
            Reach::Elsewhere,
            format!("no: RBAC: {none}"),
        ),
        (
            "frank",
            "pods",
            None,
            Reach::Home,
            "no: RBAC: role.rbac.authorization.k8s.io \"flat\" not found".to_owned(),
        ),
        (
            "otto",
            "pods",
            None,
            Reach::Home,
            "no: RBAC: unsupported role reference kind: \"Rule\"".to_owned(),
        ),
        // An allowed request does not report missing roles.
        (
            "alice",
            "pods",
            Some("x"),
            Reach::Home,
            "yes: RBAC: allowed by ClusterRoleBinding \"y\" of ClusterRole \"there\" to User \
             \"alice\""
                .to_owned(),
        ),
    ] {
        let found = decide(&policy, user, &[], &get(resource, namespace), reach);
        assert_eq!(found, expected, "{user} {resource} {namespace:?} {reach:?}");
    }
}

#[test]
fn changes_take_effect_at_once_and_removal_frees_all_memory() {
    let mut policy = Policy::new();
    let empty = policy.weight();
    let pods = || get("pods", Some("x"));
    let is_allowed = |policy: &Policy, user: &str| {
        policy
            .decide(caller(user, &[]), &pods(), Reach::Home)
            .is_allowed()
    };
    let put = |policy: &mut Policy, (kind, value): (RbacKind, serde_json::Value)| {
        policy.put(object(kind, &value));
    };
    // Bindings may be added before their roles.
    put(
        &mut policy,
        binding("b", Some("x"), "Role/r", &["User/alice", "User/alice"]),
    );
    assert!(!is_allowed(&policy, "alice"));
    put(&mut policy, role("r", Some("x"), &["pods"]));
    assert!(is_allowed(&policy, "alice"));
    put(&mut policy, role("r", Some("x"), &["secrets"]));
    assert!(!is_allowed(&policy, "alice"));
    put(&mut policy, role("r", Some("x"), &["pods"]));
    put(
        &mut policy,
        binding("b", Some("x"), "Role/r", &["User/bob"]),
    );
    assert!(!is_allowed(&policy, "alice"));
    assert!(is_allowed(&policy, "bob"));
    put(
        &mut policy,
        binding("b", Some("x"), "Role/other", &["User/bob"]),
    );
    assert!(!is_allowed(&policy, "bob"));
    put(
        &mut policy,
        binding("b", Some("x"), "Role/r", &["User/bob"]),
    );
    // Same name, but another kind or namespace.
    policy.remove(RbacKind::Role, Some("x"), "b");
    policy.remove(RbacKind::RoleBinding, Some("y"), "b");
    policy.remove(RbacKind::ClusterRoleBinding, None, "b");
    policy.remove(RbacKind::RoleBinding, None, "b");
    assert!(is_allowed(&policy, "bob"));
    assert!(policy.weight() > empty);
    policy.remove(RbacKind::RoleBinding, Some("x"), "b");
    assert!(!is_allowed(&policy, "bob"));
    policy.remove(RbacKind::Role, Some("x"), "r");
    assert_eq!(policy.weight(), empty);
}

#[test]
fn rules_are_ordered_by_binding_and_repeated_per_binding() {
    let policy = policy(&[
        role("a", None, &["pods"]),
        role("b", None, &["nodes"]),
        role("c", Some("x"), &["secrets"]),
        binding("2", None, "ClusterRole/a", &["User/alice"]),
        binding("3", None, "ClusterRole/a", &["User/alice", "Group/dev"]),
        binding("1", None, "ClusterRole/b", &["Group/dev"]),
        binding("0", Some("x"), "Role/c", &["User/alice"]),
        binding("9", Some("x"), "Role/nosuch", &["User/alice"]),
    ]);
    let groups = texts(&["dev", "dev"]);
    let alice = caller("alice", &groups);
    for (namespace, reach, resources, unresolved) in [
        (None, Reach::Home, &["nodes", "pods", "pods"][..], ""),
        (Some(""), Reach::Home, &["nodes", "pods", "pods"], ""),
        (Some("y"), Reach::Home, &["nodes", "pods", "pods"], ""),
        (
            Some("x"),
            Reach::Home,
            &["nodes", "pods", "pods", "secrets"],
            "role.rbac.authorization.k8s.io \"nosuch\" not found",
        ),
        (Some("x"), Reach::Elsewhere, &["nodes", "pods", "pods"], ""),
    ] {
        let found = policy.rules(alice, namespace, reach);
        let rules: Vec<&str> = found.rules.iter().map(|rule| &*rule.resources[0]).collect();
        assert_eq!(rules, resources, "{namespace:?} {reach:?}");
        assert_eq!(found.unresolved.to_string(), unresolved);
    }
}

#[test]
fn role_is_found_by_its_reference() {
    let policy = policy(&[role("a", None, &["pods"]), role("b", Some("x"), &["nodes"])]);
    let in_namespace = |namespace, name| RoleRef::Role { namespace, name };
    for (reference, resource) in [
        (RoleRef::ClusterRole("a"), Some("pods")),
        (in_namespace("x", "b"), Some("nodes")),
        (RoleRef::ClusterRole("b"), None),
        (in_namespace("x", "a"), None),
        (in_namespace("y", "b"), None),
        (in_namespace("", "a"), None),
        (RoleRef::ClusterRole("cluster-admin"), Some("*")),
        (
            in_namespace("kube-system", "extension-apiserver-authentication-reader"),
            Some("configmaps"),
        ),
    ] {
        let rules = policy.role_rules(reference);
        let found = rules.map(|rules| &*rules[0].resources[0]);
        assert_eq!(found, resource, "{reference:?}");
    }
}
