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
