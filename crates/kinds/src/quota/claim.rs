//! Quota usage of volume claims: their count and storage, in total and by storage class.

use super::{Amounts, ONE, amounts};
use crate::Object;
use crate::defaults::tree;
use crate::quantity::Quantity;

const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";

/// The infix between a storage class and the limited resource.
const CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

/// The annotation that named the class before it was a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn is_used(name: &str) -> bool {
    let known = |name: &str| [CLAIMS, STORAGE].contains(&name);
    known(name)
        || name
            .rsplit_once(CLASS_INFIX)
            .is_some_and(|(_, name)| known(name))
}

pub(super) fn usage(claim: &Object) -> Amounts {
    let class = class(claim);
    let mut usage = Amounts::new();
    let mut note = |name: &str, amount: Quantity| {
        usage.insert(name.to_owned(), amount);
        if !class.is_empty() {
            usage.insert(format!("{class}{CLASS_INFIX}{name}"), amount);
        }
    };
    note(CLAIMS, ONE);
    if let Some(storage) = storage(claim) {
        note(STORAGE, storage);
    }
    usage
}

fn class(claim: &Object) -> &str {
    let annotations = tree::child(claim, "metadata").and_then(|of| tree::child(of, "annotations"));
    let annotated = annotations.and_then(|of| of.get(CLASS_ANNOTATION)?.as_str());
    let spec = tree::child(claim, "spec");
    annotated.unwrap_or_else(|| spec.map_or("", |spec| tree::text(spec, "storageClassName")))
}

/// Returns the requested storage, or the allocated storage if that is more, in whole
/// bytes.
fn storage(claim: &Object) -> Option<Quantity> {
    let spec = tree::child(claim, "spec");
    let asked = spec.and_then(|spec| tree::child(spec, "resources"));
    let asked = *amounts(asked, "requests").get("storage")?;
    let set_aside = amounts(tree::child(claim, "status"), "allocatedResources");
    let set_aside = set_aside.get("storage").copied();
    let storage = set_aside.map_or(asked, |set_aside| asked.max(set_aside));
    Some(match storage.nanos() % 1_000_000_000 {
        0 => storage,
        _ => Quantity::new(storage.value(), storage.format()),
    })
}
