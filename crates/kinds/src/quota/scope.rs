//! Quota scopes: which objects a quota applies to.

use super::{CountedResource, pod};
use crate::Object;
use crate::defaults::tree;

/// A condition on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Scope {
    /// Returns the scopes of a quota's spec.
    pub(super) fn all_of(spec: &Object) -> Vec<Self> {
        let plain = tree::list(spec, "scopes").iter().filter_map(|name| {
            Some(Self {
                name: name.as_str()?.to_owned(),
                operator: "Exists".to_owned(),
                values: Vec::new(),
            })
        });
        let selector = tree::child(spec, "scopeSelector");
        let selected = selector
            .into_iter()
            .flat_map(|of| tree::items(of, "matchExpressions"));
        let selected = selected.map(|requirement| Self {
            name: tree::text(requirement, "scopeName").to_owned(),
            operator: tree::text(requirement, "operator").to_owned(),
            values: texts(requirement, "values"),
        });
        plain.chain(selected).collect()
    }

    /// Whether the object is in the scope. Only pods and claims can be.
    pub fn includes(&self, objects: CountedResource<'_>, object: &Object) -> bool {
        match (objects, self.name.as_str()) {
            (CountedResource::CLAIMS, "VolumeAttributesClass") => {
                self.has(&attribute_classes(object))
            }
            (CountedResource::PODS, "PriorityClass") => {
                let class = pod::spec(object).map(|spec| tree::text(spec, "priorityClassName"));
                let class = class.filter(|class| !class.is_empty());
                self.has(class.as_slice())
            }
            (CountedResource::PODS, "Terminating") => pod::has_deadline(object),
            (CountedResource::PODS, "NotTerminating") => !pod::has_deadline(object),
            (CountedResource::PODS, "BestEffort") => pod::is_best_effort(object),
            (CountedResource::PODS, "NotBestEffort") => !pod::is_best_effort(object),
            (CountedResource::PODS, "CrossNamespacePodAffinity") => {
                pod::has_cross_namespace_affinity(object)
            }
            _ => false,
        }
    }

    /// Whether the scope matches one of the names of an object, or that it has none.
    fn has(&self, names: &[&str]) -> bool {
        let listed = |name: &&str| self.values.iter().any(|value| value == name);
        match self.operator.as_str() {
            "Exists" => !names.is_empty(),
            "DoesNotExist" => names.is_empty(),
            "In" => names.iter().any(listed),
            "NotIn" => names.is_empty() || names.iter().any(|name| !listed(name)),
            _ => false,
        }
    }
}

/// Returns all volume attributes classes that a claim has, requests or is changing to.
fn attribute_classes(claim: &Object) -> Vec<&str> {
    let status = tree::child(claim, "status");
    let change = status.and_then(|status| tree::child(status, "modifyVolumeStatus"));
    let names = [
        (tree::child(claim, "spec"), "volumeAttributesClassName"),
        (status, "currentVolumeAttributesClassName"),
        (change, "targetVolumeAttributesClassName"),
    ];
    let names = names
        .into_iter()
        .map(|(of, member)| of.map_or("", |of| tree::text(of, member)));
    names.filter(|name| !name.is_empty()).collect()
}

fn texts(of: &Object, member: &str) -> Vec<String> {
    let all = tree::list(of, member).iter();
    all.filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}
