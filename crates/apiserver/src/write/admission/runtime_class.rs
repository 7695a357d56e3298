//! RuntimeClass: a new pod gets the overhead, the node selector and the tolerations of the class
//! that it names.

use insula_kinds::quantity::Quantity;
use insula_kinds::{Object, Value, kinds, toleration};

use super::Admission;
use crate::registry::Address;
use crate::status::{Result, StatusError};

/// Applies the class of a pod, or refuses a pod that contradicts it.
///
/// What a webhook changes afterwards is examined by [`validate`].
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

/// Refuses a pod with another overhead than that of its class, which webhooks may have changed.
pub async fn validate(admission: &mut Admission<'_>) -> Result<()> {
    let pod = admission.address;
    let class = find_class(admission).await?;
    let spec = admission.object.get("spec").and_then(Value::as_object);
    let checked = spec.map_or(Ok(()), |spec| {
        let defined = class
            .as_ref()
            .and_then(|class| class.get("overhead")?.get("podFixed"));
        check_overhead(defined, given_overhead(spec))
    });
    checked.map_err(|why| StatusError::not_allowed(pod.of(), &pod.name, &why))
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
    let found = registry.cached_or_fresh(&address).await?;
    let missing = || {
        let why = format!("pod rejected: RuntimeClass {name:?} not found");
        StatusError::not_allowed(pod.of(), &pod.name, &why)
    };
    Ok(Some(found.ok_or_else(missing)?.tree()))
}

fn set_overhead(spec: &mut Object, class: Option<&Object>) -> Result<(), String> {
    let defined = class.and_then(|class| class.get("overhead")?.get("podFixed"));
    let given = given_overhead(spec);
    if let (Some(defined), None) = (defined, given) {
        spec.insert("overhead".to_owned(), defined.clone());
        return Ok(());
    }
    check_overhead(defined, given)
}

/// Returns the overhead in the pod, unless it is empty.
fn given_overhead(spec: &Object) -> Option<&Value> {
    let given = spec.get("overhead")?;
    (!given.as_object()?.is_empty()).then_some(given)
}

fn check_overhead(defined: Option<&Value>, given: Option<&Value>) -> Result<(), String> {
    let why = match (defined, given) {
        (None, None) => return Ok(()),
        (Some(defined), Some(given)) if same_quantities(defined, given) => return Ok(()),
        (None, Some(_)) => {
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        }
        (Some(_), _) => {
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        }
    };
    Err(why.to_owned())
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
    let [given, defined] = [&*spec, scheduling].map(|of| of.get("tolerations"));
    let all = [given, defined].into_iter().flatten();
    let all: Vec<Value> = all.filter_map(Value::as_array).flatten().cloned().collect();
    if !all.is_empty() {
        spec.insert("tolerations".to_owned(), toleration::merge(all).into());
    }
    Ok(())
}

/// Whether two lists of resources have equal quantities, however they are written.
fn same_quantities(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return false;
    };
    let parsed = |value: &Value| value.as_str()?.parse::<Quantity>().ok();
    let same = |(name, value): (&String, &Value)| {
        other
            .get(name)
            .is_some_and(|other| parsed(other) == parsed(value))
    };
    one.len() == other.len() && one.iter().all(same)
}
