//! What is given to new objects of a few kinds that depends on other objects, or on who
//! asks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_access::CertificateRequest;
use insula_core::{MASTERS, Principal};
use insula_kinds::{Object, Value, kinds, prepare};
use serde_json::json;

use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};
use insula_kinds::core_kind;

/// The classes that every cluster has, whether or not somebody made objects of them.
const BUILT_IN: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

/// The signer of certificates that clients of the server show.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// What a new pod gets from other objects; it comes before `prepare::create`, which gives
/// what nobody else gave.
pub async fn admit_pod(registry: &Registry, address: &Address, pod: &mut Object) -> Result<()> {
    if address.kind.is(core_kind("pods")) {
        prepare::admit_service_account(pod);
        admit_priority(registry, address, pod).await?;
    }
    Ok(())
}

/// Who asks for a certificate; it follows `prepare::create`, which forgets whom the client
/// named.
pub fn admit_request(address: &Address, object: &mut Object, by: Option<&Principal>) {
    let requests = kinds().find("certificates.k8s.io", "v1", "certificatesigningrequests");
    if let (true, Some(by)) = (address.kind.id() == requests, by) {
        let extra = insula_extra(by);
        let requester = prepare::Requester {
            username: &by.user,
            uid: by.uid.as_deref().unwrap_or(""),
            groups: &by.groups,
            extra: &extra,
        };
        prepare::set_requester(object, requester);
    }
}

/// Refuses requests for certificates that would make masters, whoever asks: those have all
/// rights everywhere, and nothing takes a certificate back.
pub fn refuse_masters(address: &Address, object: &Object) -> Result<()> {
    let requests = kinds().find("certificates.k8s.io", "v1", "certificatesigningrequests");
    let text = |member: &str| {
        let value = object.get("spec").and_then(|spec| spec.get(member));
        value.and_then(Value::as_str).unwrap_or("")
    };
    if address.kind.id() != requests || text("signerName") != CLIENT_SIGNER {
        return Ok(());
    }
    let pem = STANDARD.decode(text("request")).unwrap_or_default();
    // What cannot be read is refused for that, by who validates and by who signs.
    let request = CertificateRequest::from_pem(&String::from_utf8_lossy(&pem));
    let groups = request.map_or_else(|_| Vec::new(), |request| request.subject.groups);
    if !groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
    Err(StatusError::not_allowed(address.of(), &address.name, &why))
}

/// What is known of a principal beside names: what its credential says, and where it
/// belongs.
pub fn insula_extra(principal: &Principal) -> Object {
    let said = principal.extra.iter();
    let mut extra: Object = said.map(|(key, all)| (key.clone(), json!(all))).collect();
    extra.insert(
        "insula.dev/tenant".to_owned(),
        json!([principal.home.to_string()]),
    );
    extra
}

/// A class of priority.
struct Class {
    name: String,
    value: i64,
    preemption: String,
}

/// Gives a pod the priority of its class, or that of the space's default class.
async fn admit_priority(registry: &Registry, pod: &Address, object: &mut Object) -> Result<()> {
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
    let found = match registry.cached(&address) {
        Some(found) => Some(found),
        None => registry.fresh(&address).await?,
    };
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
    Ok(match (found, built_in) {
        (Some(found), _) => Some(Class::read(name, &found.tree())),
        (None, Some((_, value))) => Some(Class {
            name: name.to_owned(),
            value: *value,
            preemption: "PreemptLowerPriority".to_owned(),
        }),
        (None, None) => None,
    })
}

/// The smallest of those that call themselves the default.
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
