//! What every namespace has: a default service account, and what the server's certificate is
//! verified with.
//!
//! Both come about with the namespace, in one transaction. Here they come back when somebody
//! deletes them, are put right when somebody edits what they say, and are brought to
//! namespaces that are older than the server. A namespace that is being deleted gets nothing:
//! whoever creates checks that in the same transaction.

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

use crate::unless_futile;

/// Whether it is the default account of a namespace.
pub fn is_account(object: &Stored) -> bool {
    object.name() == DEFAULT_ACCOUNT
}

/// Whether it should say what the server's certificate is verified with.
pub fn is_root_ca(object: &Stored) -> bool {
    object.name() == ROOT_CA
}

/// Whether the namespace has its default account.
pub fn has_account(registry: &Registry, space: &Space, namespace: &str) -> bool {
    registry
        .cached(&default_account(space, namespace))
        .is_some()
}

/// What tells namespaces what the server's certificate is verified with, told from what does
/// not at a glance.
pub struct SeatStats {
    /// How the right text ends; `None` if nothing is told.
    end: Option<Vec<u8>>,
}

impl SeatStats {
    /// Of what the server tells.
    pub fn new(registry: &Registry) -> Self {
        let end = |map: Value| format!("\"data\":{}}}", map["data"]).into_bytes();
        Self {
            end: root_ca_map(registry).map(end),
        }
    }

    /// Whether there is nothing to do about it. If not, it has to be looked at closely.
    pub fn is_right(&self, map: &Stored) -> bool {
        let body = map.body();
        let end = self.end.as_ref();
        end.is_none_or(|end| body.ends_with(end) && finds(&body, DESCRIPTION))
    }

    /// Whether the namespace is told.
    pub fn has(&self, registry: &Registry, space: &Space, namespace: &str) -> bool {
        let found = || registry.cached(&root_ca(space, namespace));
        self.end.is_none() || found().is_some_and(|map| self.is_right(&map))
    }
}

fn finds(text: &[u8], what: &str) -> bool {
    memmem::find(text, what.as_bytes()).is_some()
}

/// Creates the default account of a namespace if it is not there. Says whether it did.
pub async fn bring_account(registry: &Registry, address: &Address) -> Result<bool> {
    if registry.cached(address).is_some() || !is_lived_in(registry, address) {
        return Ok(false);
    }
    create(registry, address, json!({})).await
}

/// Creates or puts right what tells a namespace what the server's certificate is verified
/// with. Says whether it did.
pub async fn bring_root_ca(registry: &Registry, address: &Address) -> Result<bool> {
    let Some(right) = root_ca_map(registry).filter(|_| is_lived_in(registry, address)) else {
        return Ok(false);
    };
    match registry.cached(address) {
        None => create(registry, address, right).await,
        Some(map) if is_right(&map.tree(), &right) => Ok(false),
        Some(_) => {
            let written = put_right(registry, address, &right).await;
            unless_futile(written.map(|()| true), address)
        }
    }
}

/// Whether anything can be created in the object's namespace. Who is wrong about it because
/// the cache is behind is refused.
fn is_lived_in(registry: &Registry, address: &Address) -> bool {
    let namespace = address.namespace.as_deref().unwrap_or("");
    let found = registry.cached(&namespace_address(&address.space, namespace));
    let tenant = address.space.tenant();
    let tenant = tenant.map(|name| registry.tenant(name.as_str()));
    found.is_some_and(|namespace| !namespace.is_terminating())
        && tenant.is_none_or(|tenant| tenant.is_some_and(|tenant| !tenant.terminating))
}

/// Creates an object of the server's own, unless it is there. Says whether it did.
pub async fn create(registry: &Registry, address: &Address, object: Value) -> Result<bool> {
    let Value::Object(mut object) = object else {
        return Ok(false);
    };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    metadata["name"] = address.name.as_str().into();
    let namespace = address.namespace.as_deref();
    let (kind, space) = (&address.kind, &address.space);
    let made = create_object(registry, kind, space, namespace, object, None, false).await;
    match made {
        // Somebody else was faster, or the namespace is gone.
        Err(refusal) if refusal.is_taken() || refusal.reason() == "NotFound" => Ok(false),
        made => unless_futile(made.map(|_| true), address),
    }
}

/// Whether it says what it should, and what it is for.
fn is_right(map: &Object, right: &Value) -> bool {
    let described = map.get("metadata").and_then(|of| of.get("annotations"));
    let described = described.and_then(|of| of.get(DESCRIPTION)?.as_str());
    map.get("data") == right.get("data") && described.is_some_and(|text| !text.is_empty())
}

async fn put_right(registry: &Registry, address: &Address, right: &Value) -> Result<()> {
    let request = Modify::by_server(address, None);
    let make = |map: &Object| {
        let mut object = map.clone();
        if !is_right(map, right) {
            object.insert("data".to_owned(), right["data"].clone());
            let metadata = object.entry("metadata").or_insert_with(|| json!({}));
            if !metadata["annotations"].is_object() {
                metadata["annotations"] = json!({});
            }
            let description = &right["metadata"]["annotations"][DESCRIPTION];
            metadata["annotations"][DESCRIPTION] = description.clone();
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    modify(registry, request, make).await.map(drop)
}
