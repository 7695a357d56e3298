//! The comparison of the kinds that operators create.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::{Drift, Managed};

impl Managed for Namespace {
    fn diff(&self, found: &Self) -> Drift<Self> {
        merge(self, found, |_| false)
    }
}

/// Data that the server or other writers fill in is kept; the type is immutable.
impl Managed for Secret {
    fn diff(&self, found: &Self) -> Drift<Self> {
        if self.type_.is_some() && self.type_ != found.type_ {
            return Drift::Recreate;
        }
        merge(self, found, |kept| match &self.data {
            Some(data) => assign(&mut kept.data, Some(data.clone())),
            None => false,
        })
    }
}

impl Managed for ServiceAccount {
    fn diff(&self, found: &Self) -> Drift<Self> {
        merge(self, found, |_| false)
    }
}

impl Managed for ConfigMap {
    fn diff(&self, found: &Self) -> Drift<Self> {
        merge(self, found, |kept| {
            assign(&mut kept.data, self.data.clone())
        })
    }
}

impl Managed for Role {
    fn diff(&self, found: &Self) -> Drift<Self> {
        merge(self, found, |kept| rules(&mut kept.rules, &self.rules))
    }
}

impl Managed for ClusterRole {
    fn diff(&self, found: &Self) -> Drift<Self> {
        merge(self, found, |kept| rules(&mut kept.rules, &self.rules))
    }
}

impl Managed for RoleBinding {
    fn diff(&self, found: &Self) -> Drift<Self> {
        if self.role_ref != found.role_ref {
            return Drift::Recreate;
        }
        merge(self, found, |kept| {
            subjects(&mut kept.subjects, &self.subjects)
        })
    }
}

impl Managed for ClusterRoleBinding {
    fn diff(&self, found: &Self) -> Drift<Self> {
        if self.role_ref != found.role_ref {
            return Drift::Recreate;
        }
        merge(self, found, |kept| {
            subjects(&mut kept.subjects, &self.subjects)
        })
    }
}

/// Merges labels, annotations and the changes of `merge_spec` into the object that was found.
/// `merge_spec` returns whether it changed anything.
pub(super) fn merge<K>(wanted: &K, found: &K, merge_spec: impl FnOnce(&mut K) -> bool) -> Drift<K>
where
    K: Resource + Clone,
{
    let mut kept = found.clone();
    let metadata_changed = merge_metadata(kept.meta_mut(), wanted.meta());
    let spec_changed = merge_spec(&mut kept);
    match metadata_changed || spec_changed {
        true => Drift::Replace(Box::new(kept)),
        false => Drift::InSync,
    }
}

/// Sets the desired labels and annotations. Returns whether one was missing or different.
fn merge_metadata(kept: &mut ObjectMeta, wanted: &ObjectMeta) -> bool {
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

/// Compares rules as sets: order has no meaning, also within a rule.
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

/// Compares subjects as sets, with the API group that the server fills in.
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

    /// Compares two objects: as found, as desired.
    fn becomes<K: Managed>(found: Value, wanted: Value) -> Drift<Value> {
        match of::<K>(wanted).diff(&of(found)) {
            Drift::InSync => Drift::InSync,
            Drift::Recreate => Drift::Recreate,
            Drift::Replace(kept) => {
                Drift::Replace(Box::new(serde_json::to_value(kept).expect("an object")))
            }
        }
    }

    fn labelled(labels: Value, annotations: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {
            "name": "a", "resourceVersion": "7", "labels": labels, "annotations": annotations,
        }})
    }

    #[test]
    fn other_labels_and_annotations_are_kept() {
        let wanted = labelled(json!({"ours": "1"}), json!({"note": "x"}));
        let table = [
            (
                labelled(json!({"ours": "1", "theirs": "2"}), json!({"note": "x"})),
                Drift::InSync,
            ),
            (
                labelled(
                    json!({"ours": "0", "theirs": "2"}),
                    json!({"note": "x", "b": "y"}),
                ),
                Drift::Replace(Box::new(labelled(
                    json!({"ours": "1", "theirs": "2"}),
                    json!({"note": "x", "b": "y"}),
                ))),
            ),
            (
                labelled(json!(null), json!(null)),
                Drift::Replace(Box::new(labelled(
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
    fn rules_are_compared_as_sets_and_replaced_as_a_whole() {
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
                true => Drift::InSync,
                false => Drift::Replace(Box::new(wanted.clone())),
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
    fn changed_role_ref_recreates_and_changed_subjects_replace() {
        let jane = json!({"kind": "User", "name": "jane"});
        let account = json!({"kind": "ServiceAccount", "name": "s", "namespace": "n"});
        let filled = json!({
            "kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io",
        });
        let wanted = binding("r", json!([jane, account]));
        let changed = Drift::Replace(Box::new(wanted.clone()));
        for (found, expected) in [
            (binding("r", json!([account, filled])), Drift::InSync),
            (binding("other", json!([jane, account])), Drift::Recreate),
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
    fn secret_data_is_kept_and_changed_type_recreates() {
        let secret = |kind: &str, token: Option<&[u8]>| Secret {
            type_: Some(kind.to_owned()),
            data: token.map(|token| [("token".to_owned(), ByteString(token.to_vec()))].into()),
            ..Secret::default()
        };
        let wanted = secret("t", None);
        assert_eq!(wanted.diff(&secret("t", Some(b"x"))), Drift::InSync);
        assert_eq!(wanted.diff(&secret("Opaque", Some(b"x"))), Drift::Recreate);
        let other = secret("t", Some(b"y"));
        let replaced = other.diff(&secret("t", Some(b"x")));
        assert_eq!(replaced, Drift::Replace(Box::new(other.clone())));
    }
}
