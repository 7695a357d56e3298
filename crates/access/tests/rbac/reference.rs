//! The policy compared with a naive reference: all objects in one map, each examined for
//! every decision.

use std::collections::{BTreeMap, BTreeSet};

use insula_access::rbac::{
    Attributes, Policy, RbacKind, Reach, ResourceAttributes, Rule, User, bootstrap,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::escalation::rule;
use crate::object;

/// Kind, namespace (empty if none) and name.
type Key = (RbacKind, String, String);

#[derive(Clone, Debug)]
enum Change {
    Put(Key, Value),
    Remove(Key),
}

#[derive(Clone, Debug)]
struct Question {
    user: String,
    groups: Vec<String>,
    verb: &'static str,
    group: &'static str,
    resource: (&'static str, Option<&'static str>),
    namespace: Option<&'static str>,
    name: Option<&'static str>,
    path: Option<&'static str>,
    reach: Reach,
}

const NAMESPACES: [&str; 3] = ["x", "y", "kube-system"];
const LABELS: [&str; 3] = ["one", "two", "rbac.authorization.k8s.io/aggregate-to-view"];
const CLUSTER_ROLES: [&str; 8] = [
    "a",
    "b",
    "c",
    "view",
    "edit",
    "system:discovery",
    "system:aggregate-to-view",
    "zz",
];
const ROLES: [&str; 3] = ["a", "b", "system::leader-locking-kube-scheduler"];
const BINDINGS: [&str; 6] = [
    "a",
    "b",
    "c",
    "system:discovery",
    "system:basic-user",
    "system::leader-locking-kube-scheduler",
];
const USERS: [&str; 4] = [
    "alice",
    "bob",
    "system:serviceaccount:x:sa",
    "system:kube-scheduler",
];
const GROUPS: [&str; 3] = ["dev", "system:authenticated", "system:unauthenticated"];

/// All objects of a space, including built-in ones.
struct Reference(BTreeMap<Key, Value>);

impl Reference {
    fn of(own: &BTreeMap<Key, Value>) -> Self {
        let built_in = RbacKind::ALL.into_iter().flat_map(|kind| {
            bootstrap::objects(kind).iter().map(move |of| {
                let namespace = of.namespace().unwrap_or_default();
                let key = (kind, namespace.to_owned(), of.name().to_owned());
                (key, Value::Object(of.object().clone()))
            })
        });
        let mut objects: BTreeMap<Key, Value> = built_in.collect();
        objects.extend(own.clone());
        let mut reference = Self(objects);
        reference.aggregate();
        reference
    }

    /// Repeats until nothing changes, like the aggregation controller.
    fn aggregate(&mut self) {
        let is_aggregated = |role: &Value| role["aggregationRule"].is_object();
        for role in self.0.values_mut().filter(|role| is_aggregated(role)) {
            role["rules"] = json!([]);
        }
        loop {
            let before = self.0.clone();
            for role in self.0.values_mut().filter(|role| is_aggregated(role)) {
                let mut rules = BTreeSet::new();
                for (key, other) in &before {
                    let selects = |selector: &Value| selects(selector, other);
                    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
                    let selected = selectors.unwrap().iter().any(selects);
                    if key.0 == RbacKind::ClusterRole
                        && role["metadata"]["name"] != *key.2
                        && selected
                    {
                        rules.extend(rules_of(other));
                    }
                }
                role["rules"] = json!(rules);
            }
            if self.0 == before {
                return;
            }
        }
    }

    /// The bindings of a user with their rules, in order.
    fn bound(&self, caller: User<'_>, namespace: Option<&str>, reach: Reach) -> Vec<Bound> {
        let mut bound = Vec::new();
        for place in [Some(""), namespace.filter(|_| reach == Reach::Home)] {
            let Some(place) = place else { continue };
            for ((kind, namespace, name), binding) in &self.0 {
                let subjects = binding["subjects"].as_array();
                let mut subjects = subjects.into_iter().flatten();
                let subject = subjects.find_map(|subject| applies(subject, namespace, caller));
                if let (true, Some(subject)) = (namespace == place, subject) {
                    let shown = match kind {
                        RbacKind::RoleBinding => format!("RoleBinding \"{name}/{namespace}\""),
                        _ => format!("ClusterRoleBinding \"{name}\""),
                    };
                    bound.push(self.resolve(binding, namespace, &shown, &subject));
                }
            }
        }
        bound
    }

    fn resolve(&self, binding: &Value, namespace: &str, shown: &str, subject: &str) -> Bound {
        let text = |field| binding["roleRef"][field].as_str().unwrap().to_owned();
        let (kind, name) = (text("kind"), text("name"));
        let key = match &*kind {
            "Role" => (RbacKind::Role, namespace.to_owned(), name.clone()),
            _ => (RbacKind::ClusterRole, String::new(), name.clone()),
        };
        let lower = kind.to_lowercase();
        Bound {
            reason: format!("RBAC: allowed by {shown} of {kind} \"{name}\" to {subject}"),
            rules: self.0.get(&key).map(rules_of).ok_or(format!(
                "{lower}.rbac.authorization.k8s.io \"{name}\" not found"
            )),
        }
    }

    fn decide(
        &self,
        caller: User<'_>,
        attributes: &Attributes<'_>,
        reach: Reach,
    ) -> (bool, String) {
        let bound = self.bound(caller, attributes.namespace(), reach);
        let mut errors: Vec<String> = Vec::new();
        for binding in bound {
            match binding.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return (true, binding.reason);
                }
                Ok(_) => {}
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
        }
        let reason = match &errors[..] {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            several => format!("RBAC: [{}]", several.join(", ")),
        };
        (false, reason)
    }
}

struct Bound {
    reason: String,
    rules: Result<Vec<Rule>, String>,
}

fn rules_of(role: &Value) -> Vec<Rule> {
    serde_json::from_value(role.get("rules").cloned().unwrap_or(json!([]))).unwrap()
}

fn selects(selector: &Value, role: &Value) -> bool {
    let labels = selector["matchLabels"].as_object().unwrap();
    labels
        .iter()
        .all(|(key, value)| role["metadata"]["labels"].get(key) == Some(value))
}

fn applies(subject: &Value, namespace: &str, caller: User<'_>) -> Option<String> {
    let text = |field| subject[field].as_str().unwrap_or_default();
    let name = text("name");
    let (applies, shown) = match text("kind") {
        "User" => (caller.name == name, format!("User \"{name}\"")),
        "Group" => {
            let is_in = caller.groups.iter().any(|group| group == name);
            (is_in, format!("Group \"{name}\""))
        }
        _ => {
            let own = text("namespace");
            let namespace = if own.is_empty() { namespace } else { own };
            let user = format!("system:serviceaccount:{namespace}:{name}");
            let shown = format!("ServiceAccount \"{name}/{namespace}\"");
            (caller.name == user && !namespace.is_empty(), shown)
        }
    };
    applies.then_some(shown)
}

fn labels() -> impl Strategy<Value = Value> {
    let labels = subsequence(&LABELS[..], 0..=2);
    labels.prop_map(|labels| labels.into_iter().map(|label| (label, "true")).collect())
}

fn key() -> impl Strategy<Value = Key> {
    let of = |kind: RbacKind, names: &'static [&'static str]| {
        let namespaces: &[&str] = if kind.is_namespaced() {
            &NAMESPACES
        } else {
            &[""]
        };
        (select(namespaces), select(names))
            .prop_map(move |(namespace, name)| (kind, namespace.to_owned(), name.to_owned()))
    };
    prop_oneof![
        of(RbacKind::Role, &ROLES),
        of(RbacKind::ClusterRole, &CLUSTER_ROLES),
        of(RbacKind::RoleBinding, &BINDINGS),
        of(RbacKind::ClusterRoleBinding, &BINDINGS),
    ]
}

fn subject() -> impl Strategy<Value = Value> {
    let of = |kind: &'static str, names: &'static [&'static str]| {
        select(names).prop_map(move |name| json!({"kind": kind, "name": name}))
    };
    prop_oneof![
        of("User", &USERS),
        of("Group", &GROUPS),
        select(&["", "x", "y"][..]).prop_map(|namespace| {
            json!({"kind": "ServiceAccount", "name": "sa", "namespace": namespace})
        }),
    ]
}

fn put() -> impl Strategy<Value = Change> {
    let contents = (
        prop::collection::vec(rule(), 0..3),
        prop::option::weighted(0.4, prop::collection::vec(select(&LABELS[..]), 1..3)),
        labels(),
        prop::collection::vec(subject(), 0..4),
        (
            any::<bool>(),
            select(&CLUSTER_ROLES[..]),
            select(&ROLES[..]),
        ),
    );
    (key(), contents).prop_map(|(key, (rules, selected, labels, subjects, role))| {
        let (kind, namespace, name) = &key;
        let mut object = json!({"metadata": {"name": name, "labels": labels}});
        if kind.is_namespaced() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        match kind {
            RbacKind::Role | RbacKind::ClusterRole => object["rules"] = json!(rules),
            _ => {
                object["subjects"] = json!(subjects);
                object["roleRef"] = match (kind, role) {
                    (RbacKind::RoleBinding, (true, _, name)) => {
                        json!({"kind": "Role", "name": name})
                    }
                    (_, (_, name, _)) => json!({"kind": "ClusterRole", "name": name}),
                };
            }
        }
        if let (RbacKind::ClusterRole, Some(selected)) = (kind, selected) {
            let selectors = selected
                .iter()
                .map(|label| json!({"matchLabels": {*label: "true"}}));
            object["aggregationRule"] =
                json!({"clusterRoleSelectors": Value::from_iter(selectors)});
        }
        Change::Put(key, object)
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![3 => put(), 1 => key().prop_map(Change::Remove)]
}

fn question() -> impl Strategy<Value = Question> {
    let caller = (select(&USERS[..]), subsequence(&GROUPS[..], 0..=2));
    let resources = [
        ("pods", None),
        ("pods", Some("log")),
        ("nodes", None),
        ("leases", None),
        ("rest", Some("log")),
    ];
    let attributes = (
        select(&["get", "list", "update", "create"][..]),
        select(&["", "apps", "coordination.k8s.io"][..]),
        select(resources.to_vec()),
        select(&[None, Some("x"), Some("y"), Some("kube-system")][..]),
        select(&[None, Some("a"), Some("kube-scheduler")][..]),
        prop::option::weighted(0.2, select(&["/a", "/a/b", "/api", "/healthz", "/x"][..])),
    );
    let reach = select(&[Reach::Home, Reach::Home, Reach::Elsewhere][..]);
    (caller, attributes, reach).prop_map(|((user, groups), attributes, reach)| Question {
        user: user.to_owned(),
        groups: groups.into_iter().map(str::to_owned).collect(),
        verb: attributes.0,
        group: attributes.1,
        resource: attributes.2,
        namespace: attributes.3,
        name: attributes.4,
        path: attributes.5,
        reach,
    })
}

impl Question {
    fn attributes(&self) -> Attributes<'_> {
        let verb = self.verb;
        match self.path {
            Some(path) => Attributes::NonResource { verb, path },
            None => Attributes::Resource(ResourceAttributes {
                verb,
                group: self.group,
                resource: self.resource.0,
                subresource: self.resource.1,
                namespace: self.namespace,
                name: self.name,
            }),
        }
    }
}

fn agrees(policy: &Policy, reference: &Reference, asked: &Question) -> Result<(), TestCaseError> {
    let caller = User {
        name: &asked.user,
        groups: &asked.groups,
    };
    let decision = policy.decide(caller, &asked.attributes(), asked.reach);
    let found = (decision.is_allowed(), decision.reason().to_string());
    prop_assert_eq!(
        found,
        reference.decide(caller, &asked.attributes(), asked.reach),
        "{:?}",
        asked
    );
    // Rules are compared per binding; rules within an aggregation cycle are unordered.
    let rules = policy.rules(caller, asked.namespace, asked.reach);
    let bound = reference.bound(caller, asked.namespace, asked.reach);
    let mut left = &rules.rules[..];
    let mut unresolved = rules.unresolved.iter();
    for binding in bound {
        match binding.rules {
            Err(error) => prop_assert_eq!(unresolved.next().map(ToString::to_string), Some(error)),
            Ok(mut expected) => {
                let (these, rest) = left.split_at(expected.len().min(left.len()));
                let mut these: Vec<Rule> = these.iter().map(|rule| (**rule).clone()).collect();
                these.sort();
                expected.sort();
                prop_assert_eq!(these, expected, "{:?}", asked);
                left = rest;
            }
        }
    }
    prop_assert!(left.is_empty() && unresolved.next().is_none());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_decision_matches_the_reference_after_any_change(
        changes in prop::collection::vec((change(), prop::collection::vec(question(), 1..6)), 1..20),
    ) {
        let mut policy = Policy::new();
        let mut own = BTreeMap::new();
        for (change, questions) in changes {
            match change {
                Change::Put(key, value) => {
                    policy.put(object(key.0, &value));
                    own.insert(key, value);
                }
                Change::Remove(key) => {
                    policy.remove(key.0, Some(&key.1).filter(|name| !name.is_empty()).map(|name| &**name), &key.2);
                    own.remove(&key);
                }
            }
            let reference = Reference::of(&own);
            for asked in &questions {
                agrees(&policy, &reference, asked)?;
            }
        }
        for (kind, namespace, name) in own.into_keys() {
            let namespace = kind.is_namespaced().then_some(&*namespace);
            policy.remove(kind, namespace, &name);
        }
        prop_assert_eq!(policy.weight(), Policy::new().weight());
    }
}
