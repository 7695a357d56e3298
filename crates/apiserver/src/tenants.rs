//! Tenants and namespaces come about whole: with everything that belongs in them, in one
//! transaction.

use insula_core::{Space, TenantName};
use insula_kinds::{Kind, KindId, Object, Value, defaults, kinds, prepare};
use insula_store::{Expect, Transaction};
use serde_json::json;
use uuid::Uuid;

use crate::registry::{Address, Registry, core_kind, namespace_address, tenant_address};
use crate::status::{Refusal, Result};
use crate::write::encoded;

/// The namespaces that every space has.
pub const NAMESPACES: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The role of a tenant's administrators, in the tenant's own space.
pub const ADMIN_ROLE: &str = "admin-role";

/// What gives it to the user `admin`.
pub const ADMIN_BINDING: &str = "admin-role-binding";

/// A system namespace must not have the name of a tenant, or their keys would meet.
pub fn keep_apart_from_tenants(
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

/// And the other way round.
pub fn keep_apart_from_namespaces(
    registry: &Registry,
    transaction: Transaction,
    tenant: &Address,
) -> Transaction {
    let namespace = registry.key(&namespace_address(&Space::System, &tenant.name));
    transaction.check(namespace, Expect::Absent)
}

/// What they are told who meet.
pub fn name_taken(kind: &Kind, name: &str) -> Refusal {
    let (one, other) = match kind.kind.as_str() {
        "Tenant" => ("a namespace of the system space", "tenants"),
        _ => ("a tenant", "system namespaces"),
    };
    let why = format!(
        "{one} has this name already, and {other} share their names with it; choose another name"
    );
    Refusal::conflict(kind, name, &why)
}

/// Puts what belongs in a new tenant's space: namespaces, service accounts, the role of
/// its administrators and who has it.
pub fn furnish(
    registry: &Registry,
    mut transaction: Transaction,
    name: &str,
    now: &str,
) -> Result<Transaction> {
    // The system tenant's space is there before it.
    let space = Space::parse(name).map_err(Refusal::internal)?;
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
        let kind = kinds()
            .find(RBAC, "v1", resource)
            .expect("it is in the table");
        let address = Address {
            kind: kind.into(),
            space: space.clone(),
            namespace: None,
            name: name.to_owned(),
        };
        transaction = put(registry, transaction, &address, object, now);
    }
    Ok(transaction)
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Puts a namespace with what belongs in it.
pub fn put_namespace(
    registry: &Registry,
    transaction: Transaction,
    space: &Space,
    name: &str,
    now: &str,
) -> Transaction {
    let address = namespace_address(space, name);
    let transaction = put(registry, transaction, &address, json!({}), now);
    furnish_namespace(registry, transaction, &address, now)
}

/// Puts what belongs in a new namespace: its default service account.
pub fn furnish_namespace(
    registry: &Registry,
    transaction: Transaction,
    namespace: &Address,
    now: &str,
) -> Transaction {
    let address = Address {
        kind: core_kind("serviceaccounts").into(),
        space: namespace.space.clone(),
        namespace: Some(namespace.name.clone()),
        name: "default".to_owned(),
    };
    put(registry, transaction, &address, json!({}), now)
}

/// Puts an object of the server's own making.
pub fn put(
    registry: &Registry,
    transaction: Transaction,
    address: &Address,
    object: Value,
    now: &str,
) -> Transaction {
    let value = made(address, object, now);
    transaction.put(registry.key(address), value)
}

/// An object of the server's own making, as it is stored.
fn made(address: &Address, object: Value, now: &str) -> bytes::Bytes {
    let kind = address.of();
    let mut object = match object {
        Value::Object(object) => object,
        _ => Object::new(),
    };
    let uid = Uuid::new_v4().to_string();
    let mut metadata = json!({
        "name": address.name,
        "selfLink": address.self_link(),
        "uid": uid,
        "creationTimestamp": now,
    });
    if let Some(namespace) = &address.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    if let Some(tenant) = address.space.tenant() {
        metadata["tenant"] = tenant.as_str().into();
    }
    object.insert("metadata".to_owned(), metadata);
    defaults::apply(kind, &mut object);
    let mut with = prepare::Creation {
        uid: &uid,
        now,
        cluster_ip: &mut String::new,
        node_port: &mut || 0,
    };
    prepare::create(kind, &mut object, &mut with);
    encoded(kind, &object)
}

/// What the system space has from the start: its namespaces and the `system` tenant.
///
/// It is put whole when the store is new, and what was taken away since is not brought
/// back by a restart, except what cannot be taken away.
pub async fn bootstrap(registry: &Registry, now: &str) -> Result<()> {
    let mut wanted: Vec<Address> = NAMESPACES
        .iter()
        .map(|name| namespace_address(&Space::System, name))
        .collect();
    wanted.push(namespace_address(&Space::System, "kube-node-lease"));
    wanted.push(tenant_address(insula_core::SYSTEM));
    for address in wanted {
        if registry.fresh(&address).await?.is_some() {
            continue;
        }
        let key = registry.key(&address);
        let mut transaction = Transaction::new().check(key, Expect::Absent);
        transaction = put(registry, transaction, &address, json!({}), now);
        if address.kind.is(core_kind("namespaces")) {
            transaction = keep_apart_from_tenants(registry, transaction, &address);
            transaction = furnish_namespace(registry, transaction, &address, now);
        }
        // Another server was faster, or the name of a namespace that was deleted is a
        // tenant's now: either way there is nothing to put.
        registry.commit(transaction).await?;
    }
    Ok(())
}

/// Creates the default tenant if it is not there.
pub async fn ensure(registry: &Registry, name: &TenantName) -> Result<()> {
    if registry.find_tenant(name.as_str()).await?.is_some() {
        return Ok(());
    }
    let mut object = Object::new();
    object.insert("metadata".to_owned(), json!({"name": name.as_str()}));
    let kind: KindId = core_kind("tenants");
    let made = crate::write::create_object(
        registry,
        &kind.into(),
        &Space::System,
        None,
        object,
        None,
        false,
    )
    .await;
    match made {
        Err(refusal) if !refusal.is_taken() => Err(refusal),
        _ => Ok(()),
    }
}
