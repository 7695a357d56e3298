//! Events about owner references into another namespace.

use insula_apiserver::Registry;
use insula_apiserver::registry::resource::Resource;
use insula_apiserver::write::create_object;
use insula_core::Space;
use insula_kinds::core_kind;
use insula_kinds::{Object, Value, time};
use serde_json::json;

use super::cross_namespace::CrossNamespaceRef;

const COMPONENT: &str = "garbage-collector-controller";

/// Writes an event about a reference to an owner in another namespace. A failure is only logged.
pub async fn invalid_namespace(registry: &Registry, space: &Space, reference: &CrossNamespaceRef) {
    let (namespace, event) = event(reference);
    let kind = Resource::from(core_kind("events"));
    let namespace = Some(namespace.as_str());
    let written = create_object(registry, &kind, space, namespace, event, None, false).await;
    if let Err(refusal) = written {
        tracing::info!(%space, %refusal, "owner reference event refused");
    }
}

fn event(reference: &CrossNamespaceRef) -> (String, Object) {
    let (address, owner) = (&reference.dependent.address, &reference.reference);
    let own = address.namespace.as_deref().unwrap_or("");
    let namespace = match own {
        "" => "default",
        own => own,
    };
    let message = format!(
        "ownerRef [{}/{}, namespace: {own}, name: {}, uid: {}] does not exist in namespace \
         \"{own}\"",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    let mut about = json!({
        "kind": address.of().kind,
        "apiVersion": address.of().api_version(),
        "name": address.name,
        "uid": reference.dependent.object.uid(),
    });
    if !own.is_empty() {
        about["namespace"] = own.into();
    }
    let now = time::now();
    let event = json!({
        "metadata": {"generateName": format!("{}.", address.name), "namespace": namespace},
        "involvedObject": about,
        "reason": "OwnerRefInvalidNamespace",
        "message": message,
        "source": {"component": COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
    });
    let event = match event {
        Value::Object(event) => event,
        _ => Object::new(),
    };
    (namespace.to_owned(), event)
}
