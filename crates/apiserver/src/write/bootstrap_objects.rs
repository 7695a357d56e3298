//! Objects that every new tenant and namespace starts with, created in the same transaction.

use insula_cache::bootstrap_objects::{
    ADMIN_BINDING, ADMIN_ROLE, DEFAULT_ACCOUNT, NAMESPACES, ROOT_CA,
};
use insula_core::{Space, TenantName};
use insula_kinds::{Kind, KindId, Object, Value, defaults, kinds, prepare};
use insula_store::{Expect, Outcome, Transaction};
use serde_json::json;
use uuid::Uuid;

use crate::pipeline::node_authorizer::LEASE_NAMESPACE;
use crate::registry::{Address, Registry, namespace_address, tenant_address};
use crate::status::{Result, StatusError};
use crate::write::encoded;
use insula_kinds::core_kind;

/// The key of the CA bundle in the root CA config map.
pub const ROOT_CA_KEY: &str = "ca.crt";

/// The annotation that describes the root CA config map.
pub const DESCRIPTION: &str = "kubernetes.io/description";

const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the \
    kube-apiserver when using internal endpoints such as the internal service IP or \
    kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
    clusters.";

/// Adds a check that no tenant has the name of a new system namespace: their keys would collide.
pub fn check_no_tenant_named(
    registry: &Registry,
    transaction: Transaction,
    namespace: &Address,
) -> Transaction {
    if !namespace.space.is_system() {
        return transaction;
    }
    let tenant = registry.key(&tenant_address(&namespace.name));
    transaction.check(tenant, Expect::Absent)
}

/// Adds a check that no system namespace has the name of a new tenant.
pub fn check_no_namespace_named(
    registry: &Registry,
    transaction: Transaction,
    tenant: &Address,
) -> Transaction {
    let namespace = registry.key(&namespace_address(&Space::System, &tenant.name));
    transaction.check(namespace, Expect::Absent)
}

/// Returns the error for a tenant and a system namespace of the same name.
pub fn name_conflict(kind: &Kind, name: &str) -> StatusError {
    let (one, other) = match kind.kind.as_str() {
        "Tenant" => ("a namespace of the system space", "tenants"),
        _ => ("a tenant", "system namespaces"),
    };
    let why = format!(
        "{one} has this name already, and {other} share their names with it; choose another name"
    );
    StatusError::conflict(kind, name, &why)
}

/// Adds the objects of a new tenant's space: namespaces with their service accounts, and the
/// role of its administrators with its binding.
pub fn add_tenant_objects(
    registry: &Registry,
    mut transaction: Transaction,
    name: &str,
    now: &str,
) -> Result<Transaction> {
    // The system space exists before its tenant object.
    let space = Space::parse(name).map_err(StatusError::internal)?;
    if space.is_system() {
        return Ok(transaction);
    }
    for namespace in NAMESPACES {
        transaction = put_namespace(registry, transaction, &space, namespace, now);
    }
    let everything = json!({
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
    });
    let to_admin = json!({
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "admin"}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ADMIN_ROLE},
    });
    for (resource, name, object) in [
        ("clusterroles", ADMIN_ROLE, everything),
        ("clusterrolebindings", ADMIN_BINDING, to_admin),
    ] {
        let address = Address {
            kind: rbac_kind(resource).into(),
            space: space.clone(),
            namespace: None,
            name: name.to_owned(),
        };
        transaction = put(registry, transaction, &address, object, now);
    }
    Ok(transaction)
}

const RBAC: &str = "rbac.authorization.k8s.io";

fn rbac_kind(resource: &str) -> KindId {
    let found = kinds().find(RBAC, "v1", resource);
    found.expect("it is in the table")
}

/// Adds a namespace with its objects.
pub fn put_namespace(
    registry: &Registry,
    transaction: Transaction,
    space: &Space,
    name: &str,
    now: &str,
) -> Transaction {
    let address = namespace_address(space, name);
    let transaction = put(registry, transaction, &address, json!({}), now);
    add_namespace_objects(registry, transaction, &address, now)
}

/// Adds the objects of a new namespace: its default service account and the root CA config map.
pub fn add_namespace_objects(
    registry: &Registry,
    transaction: Transaction,
    namespace: &Address,
    now: &str,
) -> Transaction {
    let (space, name) = (&namespace.space, &namespace.name);
    let account = default_account(space, name);
    let transaction = put(registry, transaction, &account, json!({}), now);
    match root_ca_map(registry) {
        None => transaction,
        Some(map) => put(registry, transaction, &root_ca(space, name), map, now),
    }
}

/// Returns the address of a namespace's default service account.
pub fn default_account(space: &Space, namespace: &str) -> Address {
    namespaced("serviceaccounts", space, namespace, DEFAULT_ACCOUNT)
}

/// Returns the address of a namespace's root CA config map.
pub fn root_ca(space: &Space, namespace: &str) -> Address {
    namespaced("configmaps", space, namespace, ROOT_CA)
}

fn namespaced(resource: &str, space: &Space, namespace: &str, name: &str) -> Address {
    Address {
        kind: core_kind(resource).into(),
        space: space.clone(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}

/// Returns the root CA config map without its name, if the server has a root CA.
pub fn root_ca_map(registry: &Registry) -> Option<Value> {
    let ca = registry.root_ca()?;
    Some(json!({
        "metadata": {"annotations": {DESCRIPTION: ROOT_CA_DESCRIPTION}},
        "data": {ROOT_CA_KEY: ca},
    }))
}

/// Adds an object that the server creates.
pub fn put(
    registry: &Registry,
    transaction: Transaction,
    address: &Address,
    object: Value,
    now: &str,
) -> Transaction {
    let value = encode_new(address, object, now);
    transaction.put(registry.key(address), value)
}

/// Prepares and encodes an object that the server creates.
fn encode_new(address: &Address, object: Value, now: &str) -> bytes::Bytes {
    let kind = address.of();
    let mut object = match object {
        Value::Object(object) => object,
        _ => Object::new(),
    };
    let uid = Uuid::new_v4().to_string();
    let mut metadata = match object.remove("metadata") {
        Some(given @ Value::Object(_)) => given,
        _ => json!({}),
    };
    metadata["name"] = address.name.as_str().into();
    metadata["selfLink"] = address.self_link().into();
    metadata["uid"] = uid.as_str().into();
    metadata["creationTimestamp"] = now.into();
    if let Some(namespace) = &address.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    if let Some(tenant) = address.space.tenant() {
        metadata["tenant"] = tenant.as_str().into();
    }
    object.insert("metadata".to_owned(), metadata);
    defaults::apply(kind, &mut object);
    let mut with = prepare::CreateContext {
        uid: &uid,
        now,
        // No service is among them.
        ip_family: "",
        cluster_ip: &mut String::new,
        node_port: &mut || 0,
    };
    prepare::create(kind, &mut object, &mut with);
    encoded(kind, &object)
}

/// Creates the missing objects of the system space: its namespaces and the `system` tenant.
pub async fn bootstrap(registry: &Registry, now: &str) -> Result<()> {
    let mut wanted: Vec<Address> = NAMESPACES
        .iter()
        .map(|name| namespace_address(&Space::System, name))
        .collect();
    wanted.push(namespace_address(&Space::System, LEASE_NAMESPACE));
    wanted.push(tenant_address(insula_core::SYSTEM));
    for address in wanted {
        if registry.fresh(&address).await?.is_some() {
            continue;
        }
        let key = registry.key(&address);
        let mut transaction = Transaction::new().check(key, Expect::Absent);
        transaction = put(registry, transaction, &address, json!({}), now);
        if address.kind.is(core_kind("namespaces")) {
            transaction = check_no_tenant_named(registry, transaction, &address);
            transaction = add_namespace_objects(registry, transaction, &address, now);
        }
        // A conflict means that another server created the object, or that a tenant has the name of
        // a deleted namespace by now. Nothing is left to create either way.
        registry.commit(transaction).await?;
    }
    Ok(())
}

/// Creates the namespace of node leases in a tenant's space if it is missing, as far as the tenant
/// takes new objects.
///
/// Kubelets need it and cannot create it. It is created with its first object, not with the tenant,
/// so that a tenant without nodes does not have one.
pub async fn ensure_lease_namespace(registry: &Registry, space: &Space, now: &str) -> Result<()> {
    let namespace = namespace_address(space, LEASE_NAMESPACE);
    let Some(tenant) = space.tenant() else {
        return Ok(());
    };
    if registry.cached(&namespace).is_some() {
        return Ok(());
    }
    let name = tenant.as_str();
    let found = registry.find_tenant(name).await?;
    let Some(tenant) = found.filter(|tenant| !tenant.terminating) else {
        return Ok(());
    };
    let unchanged = Expect::At(tenant.object.revision);
    let transaction = Transaction::new()
        .check(registry.key(&namespace), Expect::Absent)
        .check(registry.key(&tenant_address(name)), unchanged);
    let transaction = put_namespace(registry, transaction, space, LEASE_NAMESPACE, now);
    // A conflict means that another request created it, or that the tenant has changed.
    let written = match registry.commit(transaction).await? {
        Outcome::Committed(revision) | Outcome::Unchanged(revision) => revision,
        Outcome::Conflict(conflict) => conflict.revision,
    };
    registry.cache().await_applied(written).await;
    Ok(())
}

/// Creates a tenant if it does not exist.
pub async fn ensure_tenant(registry: &Registry, name: &TenantName) -> Result<()> {
    if registry.find_tenant(name.as_str()).await?.is_some() {
        return Ok(());
    }
    let mut object = Object::new();
    object.insert("metadata".to_owned(), json!({"name": name.as_str()}));
    let kind: KindId = core_kind("tenants");
    let created = crate::write::create_object(
        registry,
        &kind.into(),
        &Space::System,
        None,
        object,
        None,
        false,
    )
    .await;
    match created {
        Err(error) if !error.is_taken() => Err(error),
        _ => Ok(()),
    }
}
