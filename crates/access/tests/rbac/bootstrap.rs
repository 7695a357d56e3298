//! Built-in roles and bindings.

use std::collections::BTreeMap;

use insula_access::rbac::bootstrap::{find, objects};
use insula_access::rbac::{Attributes, Policy, RbacKind, Reach, RoleRef, Rule};
use serde_json::{Value, json};

use crate::{binding, caller, get, object, role, texts};

#[test]
fn built_in_objects_are_those_of_kubernetes_sorted_by_key() {
    for (kind, count) in [
        (RbacKind::ClusterRole, 69),
        (RbacKind::ClusterRoleBinding, 50),
        (RbacKind::Role, 7),
        (RbacKind::RoleBinding, 7),
    ] {
        let objects = objects(kind);
        assert_eq!(objects.len(), count, "{kind:?}");
        assert!(objects.is_sorted_by(|one, other| one.key() < other.key()));
        for built_in in objects {
            assert!(std::ptr::eq(find(kind, built_in.key()).unwrap(), built_in));
            let shown = built_in.object();
            assert_eq!(shown["apiVersion"], "rbac.authorization.k8s.io/v1");
            assert_eq!(shown["kind"], kind.as_str());
            let metadata = &shown["metadata"];
            assert_eq!(metadata["name"], built_in.name());
            let namespace = metadata.get("namespace").and_then(Value::as_str);
            assert_eq!(namespace, built_in.namespace());
            assert_eq!(namespace.is_some(), kind.is_namespaced());
            assert_eq!(
                metadata["labels"]["kubernetes.io/bootstrapping"],
                "rbac-defaults"
            );
            let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
            assert_eq!(metadata["annotations"], annotations);
            let key = match namespace {
                None => built_in.name().to_owned(),
                Some(namespace) => format!("{namespace}/{}", built_in.name()),
            };
            assert_eq!(built_in.key(), key);
        }
    }
    assert!(find(RbacKind::ClusterRole, "nosuch").is_none());
    assert!(find(RbacKind::Role, "system:controller:bootstrap-signer").is_none());
}

#[test]
fn every_built_in_binding_refers_to_an_existing_role() {
    let policy = Policy::new();
    for kind in [RbacKind::RoleBinding, RbacKind::ClusterRoleBinding] {
        for binding in objects(kind) {
            let shown = binding.object();
            let name = shown["roleRef"]["name"].as_str().unwrap();
            let role = match (&shown["roleRef"]["kind"], binding.namespace()) {
                (kind, Some(namespace)) if kind == "Role" => RoleRef::Role { namespace, name },
                _ => RoleRef::ClusterRole(name),
            };
            assert!(policy.role_rules(role).is_some(), "{}", binding.key());
        }
    }
}

/// The expected rules were written by Kubernetes' aggregation controller. They are compared
/// in order, without normalisation.
#[test]
fn aggregated_built_in_roles_have_the_rules_of_kubernetes() {
    let expected: BTreeMap<String, Vec<Rule>> =
        serde_json::from_str(include_str!("data/aggregated-rbac.json")).unwrap();
    let counts: Vec<_> = expected
        .iter()
        .map(|(name, rules)| (&**name, rules.len()))
        .collect();
    assert_eq!(counts, [("admin", 29), ("edit", 27), ("view", 12)]);
    let untouched = Policy::new();
    // A space with roles of its own recomputes the aggregation.
    let mut touched = Policy::new();
    let (kind, other) = role("other", None, &["pods"]);
    touched.put(object(kind, &other));
    for (name, rules) in expected {
        for policy in [&untouched, &touched] {
            let found = policy.role_rules(RoleRef::ClusterRole(&name)).unwrap();
            let found: Vec<&Rule> = found.iter().map(|rule| &**rule).collect();
            assert_eq!(found, rules.iter().collect::<Vec<_>>(), "{name}");
        }
        let shown = find(RbacKind::ClusterRole, &name).unwrap().object();
        assert_eq!(shown["rules"], json!(rules), "{name}");
        assert!(shown["aggregationRule"].is_object());
    }
}

#[test]
fn served_rules_of_built_in_roles_are_the_effective_ones() {
    let policy = Policy::new();
    for kind in [RbacKind::Role, RbacKind::ClusterRole] {
        for built_in in objects(kind) {
            let role = match built_in.namespace() {
                Some(namespace) => RoleRef::Role {
                    namespace,
                    name: built_in.name(),
                },
                None => RoleRef::ClusterRole(built_in.name()),
            };
            let rules = policy.role_rules(role).unwrap();
            let rules: Vec<&Rule> = rules.iter().map(|rule| &**rule).collect();
            let shown = built_in
                .object()
                .clone()
                .remove("rules")
                .unwrap_or(json!([]));
            assert_eq!(shown, json!(rules), "{}", built_in.key());
        }
    }
}

#[test]
fn discovery_is_allowed_to_authenticated_users_only() {
    let policy = Policy::new();
    let path = |path| Attributes::NonResource { verb: "get", path };
    let authenticated = texts(&["system:authenticated"]);
    let unauthenticated = texts(&["system:unauthenticated"]);
    for (attributes, known, unknown) in [
        (path("/version"), true, true),
        (path("/healthz"), true, true),
        (path("/api"), true, false),
        (path("/apis/apps/v1"), true, false),
        (path("/openapi/v3"), true, false),
        (path("/metrics"), false, false),
        (get("pods", Some("default")), false, false),
    ] {
        for (groups, expected) in [(&authenticated, known), (&unauthenticated, unknown)] {
            for reach in [Reach::Home, Reach::Elsewhere] {
                let decision = policy.decide(caller("alice", groups), &attributes, reach);
                assert_eq!(decision.is_allowed(), expected, "{attributes:?} {groups:?}");
            }
        }
    }
}

#[test]
fn object_of_the_space_replaces_the_built_in_one_while_it_exists() {
    let groups = texts(&["system:authenticated"]);
    let asked = |policy: &Policy, user: &str, attributes: &Attributes<'_>| {
        policy
            .decide(caller(user, &groups), attributes, Reach::Home)
            .is_allowed()
    };
    let api = Attributes::NonResource {
        verb: "get",
        path: "/api",
    };
    let pods = get("pods", None);
    let fresh = Policy::new();
    assert!(asked(&fresh, "alice", &api));
    assert!(!asked(&fresh, "alice", &pods));
    for (kind, value, name) in [
        // The binding is replaced by one for another user.
        {
            let name = "system:discovery";
            let to = binding(name, None, "ClusterRole/system:discovery", &["User/bob"]);
            (to.0, to.1, name)
        },
        // The role is replaced by one with other rules.
        {
            let name = "system:discovery";
            let (kind, value) = role(name, None, &["pods"]);
            (kind, value, name)
        },
    ] {
        let mut policy = Policy::new();
        policy.put(object(kind, &value));
        assert!(!asked(&policy, "alice", &api), "{kind:?}");
        let moved = kind == RbacKind::ClusterRole;
        assert_eq!(asked(&policy, "alice", &pods), moved, "{kind:?}");
        policy.remove(kind, None, name);
        assert!(asked(&policy, "alice", &api), "{kind:?}");
        assert!(!asked(&policy, "alice", &pods), "{kind:?}");
        assert_eq!(policy.weight(), fresh.weight());
        // Built-in objects cannot be removed.
        policy.remove(kind, None, name);
        assert!(asked(&policy, "alice", &api), "{kind:?}");
    }
}

#[test]
fn replaced_built_in_binding_is_not_listed_beside_its_replacement() {
    let mut policy = Policy::new();
    let groups = texts(&["system:authenticated"]);
    let alice = caller("alice", &groups);
    let before = policy.rules(alice, None, Reach::Home).rules.len();
    let name = "system:basic-user";
    let (kind, value) = binding(name, None, "ClusterRole/nosuch", &["User/alice"]);
    policy.put(object(kind, &value));
    let after = policy.rules(alice, None, Reach::Home);
    let built_in = policy.role_rules(RoleRef::ClusterRole(name)).unwrap();
    assert_eq!(after.rules.len(), before - built_in.len());
    let unresolved = "clusterrole.rbac.authorization.k8s.io \"nosuch\" not found";
    assert_eq!(after.unresolved.to_string(), unresolved);
}

#[test]
fn replaced_role_changes_the_roles_that_aggregate_it() {
    let mut policy = Policy::new();
    let (kind, mut view) = role("view", None, &["widgets"]);
    view["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-edit": "true"});
    let has_widgets = |policy: &Policy, role| {
        let rules = policy.role_rules(RoleRef::ClusterRole(role)).unwrap();
        rules.iter().any(|rule| rule.resources == ["widgets"])
    };
    let edit = |policy: &Policy| {
        policy
            .role_rules(RoleRef::ClusterRole("edit"))
            .unwrap()
            .len()
    };
    policy.put(object(kind, &view));
    assert!(has_widgets(&policy, "view") && has_widgets(&policy, "edit"));
    assert!(has_widgets(&policy, "admin"));
    assert!(edit(&policy) < edit(&Policy::new()));
    policy.remove(kind, None, "view");
    assert!(!has_widgets(&policy, "view") && !has_widgets(&policy, "admin"));
    assert_eq!(edit(&policy), edit(&Policy::new()));
}

#[test]
fn empty_policy_takes_almost_no_memory() {
    let policy = Policy::new();
    assert!(policy.weight() < 1024, "{}", policy.weight());
    assert!(size_of_val(&policy) <= policy.weight());
}
