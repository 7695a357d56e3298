//! RuntimeClass: a new pod gets the overhead, the node selector and the tolerations of the class
//! that it names.

use insula_kinds::{Object, Value, kinds, toleration};

use super::Admission;
use crate::registry::Address;
use crate::status::{Result, StatusError};

/// Applies the class of a pod, or refuses a pod that contradicts it.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    let pod = admission.address;
    let refuse = |why: String| StatusError::not_allowed(pod.of(), &pod.name, &why);
    let class = find_class(admission).await?;
    let Some(spec) = admission.object.get_mut("spec") else {
        return Ok(());
    };
    let Some(spec) = spec.as_object_mut() else {
        return Ok(());
    };
    set_overhead(spec, class.as_ref()).map_err(refuse)?;
    match class
        .as_ref()
        .and_then(|class| class.get("scheduling")?.as_object())
    {
        Some(scheduling) => set_scheduling(spec, scheduling).map_err(refuse),
        None => Ok(()),
    }
}

/// Returns the class that the pod names, with every acknowledged change.
async fn find_class(admission: &Admission<'_>) -> Result<Option<Object>> {
    let (registry, pod) = (admission.registry, admission.address);
    let spec = admission.object.get("spec");
    let name = spec.and_then(|spec| spec.get("runtimeClassName")?.as_str());
    let kind = kinds().find("node.k8s.io", "v1", "runtimeclasses");
    let (Some(name), Some(kind)) = (name, kind) else {
        return Ok(None);
    };
    let address = Address {
        kind: kind.into(),
        space: pod.space.clone(),
        namespace: None,
        name: name.to_owned(),
    };
    let found = match registry.cached(&address) {
        Some(found) => Some(found),
        None => registry.fresh(&address).await?,
    };
    let missing = || {
        let why = format!("pod rejected: RuntimeClass {name:?} not found");
        StatusError::not_allowed(pod.of(), &pod.name, &why)
    };
    Ok(Some(found.ok_or_else(missing)?.tree()))
}

fn set_overhead(spec: &mut Object, class: Option<&Object>) -> Result<(), String> {
    let defined = class.and_then(|class| class.get("overhead")?.get("podFixed"));
    let given = spec.get("overhead");
    let given = given.filter(|given| given.as_object().is_some_and(|given| !given.is_empty()));
    match (defined, given) {
        (None, Some(_)) => Err(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned(),
        ),
        (Some(defined), Some(given)) if !same_quantities(defined, given) => Err(
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned(),
        ),
        (Some(defined), _) => {
            spec.insert("overhead".to_owned(), defined.clone());
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

fn set_scheduling(spec: &mut Object, scheduling: &Object) -> Result<(), String> {
    if let Some(Value::Object(defined)) = scheduling.get("nodeSelector") {
        let selector = spec.entry("nodeSelector").or_insert(Value::Null);
        let mut chosen = selector.as_object().cloned().unwrap_or_default();
        for (key, value) in defined {
            let given = chosen.get(key).filter(|given| *given != value);
            if let Some(given) = given {
                let [value, given] = [value, given].map(|it| it.as_str().unwrap_or_default());
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; \
                     pod.spec.nodeSelector[{key}] = {given}"
                ));
            }
            chosen.insert(key.clone(), value.clone());
        }
        *selector = Value::Object(chosen);
    }
    if let Some(Value::Array(defined)) = scheduling.get("tolerations") {
        let given = spec.get("tolerations").and_then(Value::as_array);
        let all = given
            .into_iter()
            .flatten()
            .chain(defined)
            .cloned()
            .collect();
        spec.insert("tolerations".to_owned(), toleration::merge(all).into());
    }
    Ok(())
}

/// Whether two lists of resources have equal quantities, however they are written.
fn same_quantities(one: &Value, other: &Value) -> bool {
    let canonical = |list: &Value| -> Option<Vec<(String, String)>> {
        let list = list.as_object()?.iter().map(|(name, value)| {
            let value = insula_kinds::quantity::canonical(value.as_str()?).ok()?;
            Some((name.clone(), value))
        });
        list.collect()
    };
    canonical(one) == canonical(other)
}
