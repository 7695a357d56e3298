//! Objects that every namespace has: the default service account, and the ConfigMap with the CA of
//! the server's certificate.
//!
//! Both are created with the namespace, in one transaction. This controller restores them when a
//! client deletes or edits them, and adds them to namespaces that are older than the server. A
//! namespace that is being deleted gets neither: creating an object checks that in the same
//! transaction.

use insula_apiserver::Registry;
use insula_apiserver::registry::{Address, namespace_address};
use insula_apiserver::status::Result;
use insula_apiserver::write::bootstrap_objects::{
    DESCRIPTION, default_account, root_ca, root_ca_map,
};
use insula_apiserver::write::{Modified, Modify, create_object, modify};
use insula_cache::Stored;
use insula_cache::bootstrap_objects::{DEFAULT_ACCOUNT, ROOT_CA};
use insula_core::Space;
use insula_kinds::{Object, Value};
use memchr::memmem;
use serde_json::json;

use crate::ignore_permanent;

/// Whether the object is the default service account of a namespace.
pub fn is_default_account(object: &Stored) -> bool {
    object.name() == DEFAULT_ACCOUNT
}

/// Whether the object is the CA ConfigMap of a namespace.
pub fn is_root_ca(object: &Stored) -> bool {
    object.name() == ROOT_CA
}

/// Whether the namespace has its default service account.
pub fn has_default_account(registry: &Registry, space: &Space, namespace: &str) -> bool {
    registry
        .cached(&default_account(space, namespace))
        .is_some()
}

/// A cheap comparison of CA ConfigMaps with the expected one, on their encoded bytes.
pub struct RootCaMatcher {
    /// How the encoding of a correct one ends; `None` if the server publishes no CA.
    end: Option<Vec<u8>>,
}

impl RootCaMatcher {
    /// Expects the CA that the server publishes.
    pub fn new(registry: &Registry) -> Self {
        let end = |map: Value| format!("\"data\":{}}}", map["data"]).into_bytes();
        Self {
            end: root_ca_map(registry).map(end),
        }
    }

    /// Whether the ConfigMap is certainly correct. If not, it has to be decoded and compared.
    pub fn is_correct(&self, map: &Stored) -> bool {
        let body = map.body();
        let end = self.end.as_ref();
        end.is_none_or(|end| body.ends_with(end) && contains(&body, DESCRIPTION))
    }

    /// Whether the namespace has a correct CA ConfigMap.
    pub fn has(&self, registry: &Registry, space: &Space, namespace: &str) -> bool {
        let found = || registry.cached(&root_ca(space, namespace));
        self.end.is_none() || found().is_some_and(|map| self.is_correct(&map))
    }
}

fn contains(text: &[u8], what: &str) -> bool {
    memmem::find(text, what.as_bytes()).is_some()
}

/// Creates the default account of a namespace if it is missing. Returns whether it did.
pub async fn ensure_default_account(registry: &Registry, address: &Address) -> Result<bool> {
    if registry.cached(address).is_some() || !accepts_objects(registry, address) {
        return Ok(false);
    }
    create(registry, address, json!({})).await
}

/// Creates or repairs the CA ConfigMap of a namespace. Returns whether it did.
pub async fn ensure_root_ca(registry: &Registry, address: &Address) -> Result<bool> {
    let Some(expected) = root_ca_map(registry).filter(|_| accepts_objects(registry, address))
    else {
        return Ok(false);
    };
    match registry.cached(address) {
        None => create(registry, address, expected).await,
        Some(map) if is_correct(&map.tree(), &expected) => Ok(false),
        Some(_) => {
            let written = repair(registry, address, &expected).await;
            ignore_permanent(written.map(|()| true), address)
        }
    }
}

/// Whether objects can be created in the object's namespace. If the cache is behind, the create
/// itself is refused.
fn accepts_objects(registry: &Registry, address: &Address) -> bool {
    let namespace = address.namespace.as_deref().unwrap_or("");
    let found = registry.cached(&namespace_address(&address.space, namespace));
    let tenant = address.space.tenant();
    let tenant = tenant.map(|name| registry.tenant(name.as_str()));
    found.is_some_and(|namespace| !namespace.is_terminating())
        && tenant.is_none_or(|tenant| tenant.is_some_and(|tenant| !tenant.terminating))
}

/// Creates one of the server's own objects unless it exists. Returns whether it did.
pub async fn create(registry: &Registry, address: &Address, object: Value) -> Result<bool> {
    let Value::Object(mut object) = object else {
        return Ok(false);
    };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    metadata["name"] = address.name.as_str().into();
    let namespace = address.namespace.as_deref();
    let (kind, space) = (&address.kind, &address.space);
    let created = create_object(registry, kind, space, namespace, object, None, false).await;
    match created {
        // Another server was faster, or the namespace is gone.
        Err(refusal) if refusal.is_taken() || refusal.reason() == "NotFound" => Ok(false),
        created => ignore_permanent(created.map(|_| true), address),
    }
}

/// Whether the ConfigMap has the expected data and a description.
fn is_correct(map: &Object, expected: &Value) -> bool {
    let described = map.get("metadata").and_then(|of| of.get("annotations"));
    let described = described.and_then(|of| of.get(DESCRIPTION)?.as_str());
    map.get("data") == expected.get("data") && described.is_some_and(|text| !text.is_empty())
}

async fn repair(registry: &Registry, address: &Address, expected: &Value) -> Result<()> {
    let request = Modify::by_server(address, None);
    let update = |map: &Object| {
        let mut object = map.clone();
        if !is_correct(map, expected) {
            object.insert("data".to_owned(), expected["data"].clone());
            let metadata = object.entry("metadata").or_insert_with(|| json!({}));
            if !metadata["annotations"].is_object() {
                metadata["annotations"] = json!({});
            }
            let description = &expected["metadata"]["annotations"][DESCRIPTION];
            metadata["annotations"][DESCRIPTION] = description.clone();
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    modify(registry, request, update).await.map(drop)
}
