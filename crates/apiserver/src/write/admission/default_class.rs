//! DefaultStorageClass and DefaultIngressClass: a new claim or ingress that names no class gets the
//! default one of its space.

use std::cmp::Reverse;

use insula_core::Space;
use insula_kinds::{KindId, Object, Value, core_kind, kinds};

use super::{Admission, is_create};
use crate::registry::Registry;
use crate::status::Result;
use crate::write::metadata;

/// A kind of objects that have a class, and the kind of their classes.
struct Classified {
    /// The field of `spec` with the name of the class.
    field: &'static str,
    /// The annotation that names the class in older objects.
    annotation: &'static str,
    class: (&'static str, &'static str),
    /// The annotations that make a class the default one.
    default: &'static [&'static str],
}

const CLAIMS: Classified = Classified {
    field: "storageClassName",
    annotation: "volume.beta.kubernetes.io/storage-class",
    class: ("storage.k8s.io", "storageclasses"),
    default: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
};

const INGRESSES: Classified = Classified {
    field: "ingressClassName",
    annotation: "kubernetes.io/ingress.class",
    class: ("networking.k8s.io", "ingressclasses"),
    default: &["ingressclass.kubernetes.io/is-default-class"],
};

/// Whether the object is a new claim or ingress.
pub fn applies(admission: &Admission<'_>) -> bool {
    is_create(admission) && classified(admission).is_some()
}

/// Names the default class in an object that names none.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    let Some(of) = classified(admission) else {
        return Ok(());
    };
    let is_named = metadata::annotation(admission.object, of.annotation).is_some()
        || spec(admission.object).is_some_and(|spec| spec.contains_key(of.field));
    if is_named {
        return Ok(());
    }
    let (group, resource) = of.class;
    let Some(kind) = kinds().find(group, "v1", resource) else {
        return Ok(());
    };
    let space = &admission.address.space;
    if let Some(name) = default_class(admission.registry, kind, space, of.default) {
        let spec = admission.object.get_mut("spec");
        if let Some(spec) = spec.and_then(Value::as_object_mut) {
            spec.insert(of.field.to_owned(), name.into());
        }
    }
    Ok(())
}

fn classified(admission: &Admission<'_>) -> Option<&'static Classified> {
    let kind = &admission.address.kind;
    if kind.is(core_kind("persistentvolumeclaims")) {
        return Some(&CLAIMS);
    }
    let is_ingress = kind.group == "networking.k8s.io" && kind.resource == "ingresses";
    is_ingress.then_some(&INGRESSES)
}

fn spec(object: &Object) -> Option<&Object> {
    object.get("spec")?.as_object()
}

/// Returns the newest of the classes that are marked as the default.
fn default_class(
    registry: &Registry,
    kind: KindId,
    space: &Space,
    annotations: &[&str],
) -> Option<String> {
    let classes = registry.cache().find(kind, space)?.snapshot("", None);
    let marked = classes.objects.iter().filter_map(|class| {
        let tree = class.tree();
        let is_default = |name: &&str| metadata::annotation(&tree, name) == Some("true");
        let created = metadata::text(&tree, "creationTimestamp").map(str::to_owned);
        let is_marked = annotations.iter().any(is_default);
        is_marked.then(|| (Reverse(created), class.name().to_owned()))
    });
    marked.min().map(|(_, name)| name)
}
