//! Priority: a new pod gets the priority of its PriorityClass.

use insula_kinds::{Object, Value, kinds, prepare};

use super::Admission;
use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};

/// The content of a PriorityClass.
struct Class {
    name: String,
    value: i64,
    preemption: String,
}

/// Gives a pod the priority of its class, or that of the space's default class.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    let (registry, pod) = (admission.registry, admission.address);
    let object = &mut *admission.object;
    let refuse = |why: String| StatusError::not_allowed(pod.of(), &pod.name, &why);
    let asked = |member: &str| {
        object
            .get("spec")
            .and_then(|spec| spec.get(member))
            .cloned()
    };
    let name = asked("priorityClassName").and_then(|name| name.as_str().map(str::to_owned));
    let class = match name.filter(|name| !name.is_empty()) {
        Some(name) => {
            let found = find_class(registry, pod, &name).await?;
            found.ok_or_else(|| refuse(format!("no PriorityClass with name {name} was found")))?
        }
        None => match default_class(registry, pod) {
            Some(class) => class,
            None => Class {
                name: String::new(),
                value: 0,
                preemption: "PreemptLowerPriority".to_owned(),
            },
        },
    };
    let given = asked("priority").and_then(|value| value.as_i64());
    if let Some(given) = given.filter(|given| *given != class.value) {
        return Err(refuse(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority \
             admission controller computed {} from the given PriorityClass name",
            class.value
        )));
    }
    let policy = asked("preemptionPolicy").and_then(|policy| policy.as_str().map(str::to_owned));
    if let Some(policy) = policy.filter(|policy| *policy != class.preemption) {
        return Err(refuse(format!(
            "the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; \
             priority admission controller computed {} from the given PriorityClass name",
            class.preemption
        )));
    }
    let priority = prepare::Priority {
        class: &class.name,
        value: class.value,
        preemption: &class.preemption,
    };
    prepare::admit_priority(object, priority);
    Ok(())
}

async fn find_class(registry: &Registry, pod: &Address, name: &str) -> Result<Option<Class>> {
    let Some(kind) = kinds().find("scheduling.k8s.io", "v1", "priorityclasses") else {
        return Ok(None);
    };
    let address = Address {
        kind: kind.into(),
        space: pod.space.clone(),
        namespace: None,
        name: name.to_owned(),
    };
    let found = registry.cached_or_fresh(&address).await?;
    Ok(found.map(|found| Class::read(name, &found.tree())))
}

/// Returns the lowest of the classes that are marked as the default.
fn default_class(registry: &Registry, pod: &Address) -> Option<Class> {
    let kind = kinds().find("scheduling.k8s.io", "v1", "priorityclasses")?;
    let classes = registry.cache().find(kind, &pod.space)?;
    let all = classes.snapshot("", None).objects;
    let default = all.iter().filter_map(|class| {
        let tree = class.tree();
        let default = tree.get("globalDefault").and_then(Value::as_bool);
        (default == Some(true)).then(|| Class::read(class.name(), &tree))
    });
    default.min_by_key(|class| class.value)
}

impl Class {
    fn read(name: &str, class: &Object) -> Self {
        let policy = class.get("preemptionPolicy").and_then(Value::as_str);
        Self {
            name: name.to_owned(),
            value: class.get("value").and_then(Value::as_i64).unwrap_or(0),
            preemption: policy.unwrap_or("PreemptLowerPriority").to_owned(),
        }
    }
}
