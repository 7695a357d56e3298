//! Built-in objects: those that Kubernetes creates at its first start. They are RBAC roles and
//! bindings, and what else every cluster has ([`cluster`]).
//!
//! They are not stored: all tenants share one table. A space shows them as its own, with a UID
//! and the creation time of its tenant. One that is changed in a space is stored there and
//! shadows the table's. Most cannot be deleted, because no controller would restore them; the
//! Service `kubernetes` and its endpoints are replaced by the same object with another UID.

mod cluster;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use insula_access::rbac::RbacKind;
use insula_access::rbac::bootstrap::{self, BuiltIn};
use insula_core::Space;
use insula_kinds::{KindId, Object};
use serde_json::{Value, json};
use uuid::Uuid;

use self::cluster::{ClusterObject, ClusterObjects};
use crate::registry::Address;
use crate::registry::encoding::encoded;
use crate::registry::rbac_kinds;
use crate::registry::resource::Resource;
use crate::registry::service_range::ServiceRange;
use insula_cache::{SpaceState, Stored};

/// The built-in objects of a server.
#[derive(Debug)]
pub struct BuiltIns {
    cluster: ClusterObjects,
    service_range: ServiceRange,
}

/// A built-in object as its table has it: the same in every space.
#[derive(Clone, Copy)]
struct Template<'a> {
    key: &'a str,
    object: &'a Object,
}

impl BuiltIns {
    /// The built-in objects of a server that clients of all spaces reach at this address.
    pub fn new(endpoint: SocketAddr, service_range: ServiceRange) -> Self {
        Self {
            cluster: ClusterObjects::new(endpoint, &service_range),
            service_range,
        }
    }

    /// Returns the range of cluster IPs.
    pub const fn service_range(&self) -> ServiceRange {
        self.service_range
    }

    /// Whether there is a built-in object at this address.
    pub fn has(&self, address: &Address) -> bool {
        self.are_some(&address.kind) && self.template(&address.kind, &address.within()).is_some()
    }

    /// Whether there is a built-in object of this kind with this key.
    pub fn has_key(&self, kind: &Resource, key: &str) -> bool {
        self.template(kind, key).is_some()
    }

    /// Whether the kind has built-in objects.
    pub fn are_some(&self, kind: &Resource) -> bool {
        rbac_kind(kind).is_some() || !self.cluster_objects(kind).is_empty()
    }

    /// Returns the built-in object at an address, as the space shows it.
    pub fn find(&self, address: &Address, state: &SpaceState) -> Option<Arc<Stored>> {
        let key = address.within();
        let template = self.template(&address.kind, &key)?;
        Some(Arc::new(shown(
            &address.kind,
            &address.space,
            template,
            state,
        )))
    }

    /// Returns the built-in objects of a kind with this key prefix, in key order, as the space
    /// shows them.
    pub fn all(
        &self,
        kind: &Resource,
        space: &Space,
        prefix: &str,
        state: &SpaceState,
    ) -> Vec<Arc<Stored>> {
        let chosen = self.templates(kind);
        let chosen = chosen.filter(|template| template.key.starts_with(prefix));
        chosen
            .map(|template| Arc::new(shown(kind, space, template, state)))
            .collect()
    }

    /// Returns the built-in object that a stored object shadows, if any.
    pub fn shadowed(
        &self,
        kind: KindId,
        space: &Space,
        object: &Stored,
        state: &SpaceState,
    ) -> Option<Arc<Stored>> {
        let kind = kind.into();
        let template = self.template(&kind, &object.key)?;
        Some(Arc::new(shown(&kind, space, template, state)))
    }

    /// Whether an object at this address comes back with another UID when it is deleted.
    pub fn is_restored(&self, address: &Address) -> bool {
        let id = address.kind.id();
        id.is_some_and(|id| self.cluster.are_restored(id)) && self.has(address)
    }

    /// Returns the object that takes the place of a deleted one, as it is stored.
    pub fn restored(&self, address: &Address, now: &str) -> Option<Bytes> {
        let key = address.within();
        let template = self.template(&address.kind, &key)?;
        let uid = Uuid::new_v4().to_string();
        Some(encode(address, template.object, &uid, now.into()))
    }

    fn cluster_objects(&self, kind: &Resource) -> &[ClusterObject] {
        kind.id().map_or(&[], |id| self.cluster.of(id))
    }

    fn template(&self, kind: &Resource, key: &str) -> Option<Template<'_>> {
        if let Some(kind) = rbac_kind(kind) {
            return bootstrap::find(kind, key).map(Template::from);
        }
        let objects = self.cluster_objects(kind).iter();
        objects
            .map(Template::from)
            .find(|template| template.key == key)
    }

    fn templates(&self, kind: &Resource) -> impl Iterator<Item = Template<'_>> {
        let roles = rbac_kind(kind).map_or(&[][..], bootstrap::objects);
        let others = self.cluster_objects(kind).iter().map(Template::from);
        roles.iter().map(Template::from).chain(others)
    }
}

impl<'a> From<&'a BuiltIn> for Template<'a> {
    fn from(role: &'a BuiltIn) -> Self {
        Self {
            key: role.key(),
            object: role.object(),
        }
    }
}

impl<'a> From<&'a ClusterObject> for Template<'a> {
    fn from(one: &'a ClusterObject) -> Self {
        Self {
            key: &one.key,
            object: &one.object,
        }
    }
}

fn rbac_kind(kind: &Resource) -> Option<RbacKind> {
    kind.id().and_then(rbac_kinds::rbac_kind)
}

fn shown(kind: &Resource, space: &Space, template: Template<'_>, state: &SpaceState) -> Stored {
    let (namespace, name) = match template.key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, template.key),
    };
    let address = Address {
        kind: kind.clone(),
        space: space.clone(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    let uid = uid(state, &kind.resource, template.key);
    let value = encode(&address, template.object, &uid, created(state));
    Stored::built_in(template.key.into(), state.birth, &value)
}

/// Encodes an object of the table, with what differs between spaces.
fn encode(address: &Address, object: &Object, uid: &str, created: Value) -> Bytes {
    let mut object = object.clone();
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    metadata["selfLink"] = address.self_link().into();
    metadata["uid"] = uid.into();
    if let Some(tenant) = address.space.tenant() {
        metadata["tenant"] = tenant.as_str().into();
    }
    metadata["creationTimestamp"] = created.clone();
    // What is so of a built-in object has been so since it was there.
    let conditions = object.get_mut("status");
    let conditions = conditions.and_then(|status| status.get_mut("conditions")?.as_array_mut());
    for condition in conditions.into_iter().flatten() {
        condition["lastTransitionTime"] = created.clone();
    }
    encoded(address.of(), &object)
}

/// Returns a stable UID that differs between spaces.
fn uid(state: &SpaceState, resource: &str, key: &str) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [state.uid.as_bytes(), resource.as_bytes(), key.as_bytes()] {
        context.update(part);
        context.update(b"/");
    }
    let digest = context.finish();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    uuid::Builder::from_custom_bytes(bytes)
        .into_uuid()
        .to_string()
}

fn created(state: &SpaceState) -> Value {
    let time = jiff::Timestamp::from_second(state.created);
    time.map_or(Value::Null, |time| time.to_string().into())
}
