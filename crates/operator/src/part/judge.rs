//! How the kinds are judged that operators make.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::{Part, Verdict};

impl Part for Namespace {
    fn judge(&self, found: &Self) -> Verdict<Self> {
        settle(self, found, |_| false)
    }
}

/// What the server or others fill in is theirs; the type cannot be changed.
impl Part for Secret {
    fn judge(&self, found: &Self) -> Verdict<Self> {
        if self.type_.is_some() && self.type_ != found.type_ {
            return Verdict::Recreate;
        }
        settle(self, found, |kept| match &self.data {
            Some(data) => assign(&mut kept.data, Some(data.clone())),
            None => false,
        })
    }
}

impl Part for ServiceAccount {
    fn judge(&self, found: &Self) -> Verdict<Self> {
        settle(self, found, |_| false)
    }
}

impl Part for ConfigMap {
    fn judge(&self, found: &Self) -> Verdict<Self> {
        settle(self, found, |kept| {
            assign(&mut kept.data, self.data.clone())
        })
    }
}

impl Part for Role {
    fn judge(&self, found: &Self) -> Verdict<Self> {
        settle(self, found, |kept| rules(&mut kept.rules, &self.rules))
    }
}

impl Part for ClusterRole {
    fn judge(&self, found: &Self) -> Verdict<Self> {
        settle(self, found, |kept| rules(&mut kept.rules, &self.rules))
    }
}

impl Part for RoleBinding {
    fn judge(&self, found: &Self) -> Verdict<Self> {
        if self.role_ref != found.role_ref {
            return Verdict::Recreate;
        }
        settle(self, found, |kept| {
            subjects(&mut kept.subjects, &self.subjects)
        })
    }
}

impl Part for ClusterRoleBinding {
    fn judge(&self, found: &Self) -> Verdict<Self> {
        if self.role_ref != found.role_ref {
            return Verdict::Recreate;
        }
        settle(self, found, |kept| {
            subjects(&mut kept.subjects, &self.subjects)
        })
    }
}

/// What was found, with our labels and annotations and what `amend` changes; `amend` says
/// whether it changed anything.
pub(super) fn settle<K>(wanted: &K, found: &K, amend: impl FnOnce(&mut K) -> bool) -> Verdict<K>
where
    K: Resource + Clone,
{
    let mut kept = found.clone();
    let marked = mark(kept.meta_mut(), wanted.meta());
    let amended = amend(&mut kept);
    match marked || amended {
        true => Verdict::Replace(Box::new(kept)),
        false => Verdict::Right,
    }
}

/// Sets our labels and annotations; whether one was missing or otherwise.
fn mark(kept: &mut ObjectMeta, wanted: &ObjectMeta) -> bool {
    let labels = add(&mut kept.labels, wanted.labels.as_ref());
    let annotations = add(&mut kept.annotations, wanted.annotations.as_ref());
    labels || annotations
}

fn add(
    kept: &mut Option<BTreeMap<String, String>>,
    wanted: Option<&BTreeMap<String, String>>,
) -> bool {
    let mut changed = false;
    for (key, value) in wanted.into_iter().flatten() {
        let kept = kept.get_or_insert_default();
        if kept.get(key) != Some(value) {
            kept.insert(key.clone(), value.clone());
            changed = true;
        }
    }
    changed
}

fn assign<T: PartialEq>(kept: &mut T, wanted: T) -> bool {
    let changed = *kept != wanted;
    if changed {
        *kept = wanted;
    }
    changed
}

/// Rules mean the same in any order, and so do the words in one.
fn rules(kept: &mut Option<Vec<PolicyRule>>, wanted: &Option<Vec<PolicyRule>>) -> bool {
    let meaning = |rules: &Option<Vec<PolicyRule>>| {
        let rules = rules.iter().flatten();
        rules.map(meaning).collect::<BTreeSet<_>>()
    };
    if meaning(kept) == meaning(wanted) {
        return false;
    }
    kept.clone_from(wanted);
    true
}

fn meaning(rule: &PolicyRule) -> [BTreeSet<String>; 5] {
    let words = |words: &Option<Vec<String>>| words.iter().flatten().cloned().collect();
    [
        words(&rule.api_groups),
        words(&rule.resources),
        words(&rule.resource_names),
        words(&rule.non_resource_urls),
        rule.verbs.iter().cloned().collect(),
    ]
}

/// Subjects mean the same in any order, and with the group that the server fills in.
fn subjects(kept: &mut Option<Vec<Subject>>, wanted: &Option<Vec<Subject>>) -> bool {
    let meaning = |subjects: &Option<Vec<Subject>>| {
        let subjects = subjects.iter().flatten();
        subjects
            .map(|subject| {
                let Subject {
                    api_group,
                    kind,
                    name,
                    namespace,
                } = subject.clone();
                let usual = match kind.as_str() {
                    "ServiceAccount" => "",
                    _ => "rbac.authorization.k8s.io",
                };
                let group = api_group
                    .filter(|group| !group.is_empty())
                    .unwrap_or_else(|| usual.to_owned());
                (group, kind, namespace.unwrap_or_default(), name)
            })
            .collect::<BTreeSet<_>>()
    };
    if meaning(kept) == meaning(wanted) {
        return false;
    }
    kept.clone_from(wanted);
    true
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn of<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).expect("an object")
    }

    /// What becomes of an object: as it is, as it should be.
    fn becomes<K: Part>(found: Value, wanted: Value) -> Verdict<Value> {
        match of::<K>(wanted).judge(&of(found)) {
            Verdict::Right => Verdict::Right,
            Verdict::Recreate => Verdict::Recreate,
            Verdict::Replace(kept) => {
                Verdict::Replace(Box::new(serde_json::to_value(kept).expect("an object")))
            }
        }
    }

    fn labelled(labels: Value, annotations: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {
            "name": "a", "resourceVersion": "7", "labels": labels, "annotations": annotations,
        }})
    }

    #[test]
    fn labels_and_annotations_of_others_stay() {
        let wanted = labelled(json!({"ours": "1"}), json!({"note": "x"}));
        let table = [
            (
                labelled(json!({"ours": "1", "theirs": "2"}), json!({"note": "x"})),
                Verdict::Right,
            ),
            (
                labelled(
                    json!({"ours": "0", "theirs": "2"}),
                    json!({"note": "x", "b": "y"}),
                ),
                Verdict::Replace(Box::new(labelled(
                    json!({"ours": "1", "theirs": "2"}),
                    json!({"note": "x", "b": "y"}),
                ))),
            ),
            (
                labelled(json!(null), json!(null)),
                Verdict::Replace(Box::new(labelled(
                    json!({"ours": "1"}),
                    json!({"note": "x"}),
                ))),
            ),
        ];
        for (found, expected) in table {
            assert_eq!(becomes::<ServiceAccount>(found, wanted.clone()), expected);
        }
    }

    fn role(rules: Value) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "r"}, "rules": rules,
        })
    }

    fn rule(resources: Value, verbs: Value) -> Value {
        json!({"apiGroups": [""], "resources": resources, "verbs": verbs})
    }

    #[test]
    fn rules_mean_the_same_in_any_order_and_no_others_are_kept() {
        let (first, second) = (
            rule(json!(["a", "b"]), json!(["get", "list"])),
            rule(json!(["c"]), json!(["get"])),
        );
        let wanted = role(json!([first, second]));
        let turned = rule(json!(["b", "a"]), json!(["list", "get"]));
        for (rules, right) in [
            (json!([first, second]), true),
            (json!([second, turned]), true),
            (json!([first]), false),
            (json!([]), false),
            (json!(null), false),
            (
                json!([first, second, rule(json!(["*"]), json!(["*"]))]),
                false,
            ),
            (
                json!([first, rule(json!(["c"]), json!(["get", "delete"]))]),
                false,
            ),
        ] {
            let expected = match right {
                true => Verdict::Right,
                false => Verdict::Replace(Box::new(wanted.clone())),
            };
            assert_eq!(
                becomes::<Role>(role(rules.clone()), wanted.clone()),
                expected,
                "{rules}"
            );
        }
    }

    fn binding(role: &str, subjects: Value) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": subjects,
        })
    }

    #[test]
    fn a_binding_to_another_role_is_made_anew_and_one_of_others_is_changed() {
        let jane = json!({"kind": "User", "name": "jane"});
        let account = json!({"kind": "ServiceAccount", "name": "s", "namespace": "n"});
        let filled = json!({
            "kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io",
        });
        let wanted = binding("r", json!([jane, account]));
        let changed = Verdict::Replace(Box::new(wanted.clone()));
        for (found, expected) in [
            (binding("r", json!([account, filled])), Verdict::Right),
            (binding("other", json!([jane, account])), Verdict::Recreate),
            (binding("r", json!([account])), changed.clone()),
            (
                binding(
                    "r",
                    json!([jane, account, {"kind": "Group", "name": "all"}]),
                ),
                changed,
            ),
        ] {
            assert_eq!(becomes::<RoleBinding>(found, wanted.clone()), expected);
        }
    }

    #[test]
    fn what_the_server_fills_in_a_secret_stays_and_its_type_cannot_change() {
        let secret = |kind: &str, token: Option<&[u8]>| Secret {
            type_: Some(kind.to_owned()),
            data: token.map(|token| [("token".to_owned(), ByteString(token.to_vec()))].into()),
            ..Secret::default()
        };
        let wanted = secret("t", None);
        assert_eq!(wanted.judge(&secret("t", Some(b"x"))), Verdict::Right);
        assert_eq!(
            wanted.judge(&secret("Opaque", Some(b"x"))),
            Verdict::Recreate
        );
        let other = secret("t", Some(b"y"));
        let replaced = other.judge(&secret("t", Some(b"x")));
        assert_eq!(replaced, Verdict::Replace(Box::new(other.clone())));
    }
}
